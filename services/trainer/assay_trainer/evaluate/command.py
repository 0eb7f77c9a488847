"""`assay evaluate`: any policy on any sets. Its needs are imported when it runs."""

import typer

from assay_trainer.evaluate import cli_options as cli


def evaluate(
    places: cli.Places = None,
    sets: cli.Sets = None,
    output: cli.Output = None,
    steps: cli.Steps = None,
    server: cli.Server = None,
    model: cli.Model = None,
    key_variable: cli.KeyVariable = "OPENAI_API_KEY",
    answers: cli.Answers = None,
    serve: cli.Serve = cli.ServeName.AUTO,
    submit: cli.Submit = None,
    protocol: cli.Kind = None,
    protocol_file: cli.ProtocolFile = None,
    samples: cli.Samples = None,
    k: cli.Ks = None,
    budget_tokens: cli.BudgetTokens = None,
    max_tokens: cli.MaxTokens = None,
    temperature: cli.Temperature = None,
    top_p: cli.TopP = None,
    stop: cli.Stop = None,
    system: cli.System = None,
    template_argument: cli.TemplateArgument = None,
    prompt_format: cli.Format = None,
    options: cli.Options = None,
    option_score: cli.Score = None,
    rounds: cli.Rounds = None,
    visible_tests: cli.VisibleTests = None,
    feedback_tokens: cli.FeedbackTokens = None,
    seed: cli.Seed = None,
    limit: cli.Limit = None,
    limit_seed: cli.LimitSeed = 0,
    allow_train: cli.AllowTrain = False,
    concurrency: cli.Concurrency = 64,
    request_timeout: cli.RequestTimeout = 300.0,
    max_failed: cli.MaxFailed = None,
    qa_per_outcome: cli.QAPerOutcome = None,
) -> None:
    """Evaluate a policy, a server's model or stored answers on sets of tasks.

    The same command resumes what was interrupted, and asks again for samples without a score.
    Where no reward service runs, reward, judge and sandbox are started for the command.
    Exit code 1: some samples have no score.
    """
    given = dict(locals())
    from assay_trainer.evaluate.options import run

    if not run(given):
        raise typer.Exit(1)
