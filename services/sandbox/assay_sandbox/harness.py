"""Runs inside a program's own process: gives up rights, then runs the program or its cases.

It is passed as text to an isolated interpreter, so it imports nothing of ours and as little as
it can: each import is paid by every program. The server writes a marshalled plan to one
descriptor and reads records, one line each, from another:

    syntax <text>               the program does not parse
    crashed <type>: <text>      it raised before any case could run
    memory                      it asked for more memory than its limit
    start <case>                the case has begun: its time counts from here
    value <case> <json>         what the call returned, type-tagged
    passed <case>               the assertion held
    failed <case> <text>        the assertion did not hold
    raised <case> <type>: <text>
    done                        every case was run
    peak <bytes>                most memory held so far, at the end

The program shares this process and can forge any of it except what decides a call case: the
expected value, which is compared outside.
"""

import marshal
import os
import resource
import signal
import sys
import time

MAX_DEPTH = 60
MAX_TEXT = 400


def main(plan_fd: int, record_fd: int) -> None:
    with os.fdopen(plan_fd, "rb") as file:
        plan = marshal.load(file)
    give_up_rights(plan)
    if plan["command"]:
        os.set_inheritable(record_fd, False)
        os.execvpe(plan["command"][0], plan["command"], plan["env"])
    os.environ.clear()
    os.environ.update(plan["env"])
    Program(plan, record_fd).run()


def give_up_rights(plan):
    """Set the limits, then become the slot's user: an ordinary one cannot raise them again."""
    limits = plan["limits"]
    set_limit = resource.setrlimit
    set_limit(resource.RLIMIT_CORE, (0, 0))
    set_limit(resource.RLIMIT_AS, (limits["memory_bytes"],) * 2)
    set_limit(resource.RLIMIT_FSIZE, (limits["file_bytes"],) * 2)
    set_limit(resource.RLIMIT_NOFILE, (256, 256))
    # The soft limit is moved along from case to case, up to this.
    one = round_up(limits["cpu_time_s"])
    whole = one * max(1, len(plan["cases"]))
    set_limit(resource.RLIMIT_CPU, (one, whole + 1))
    # Should the server die, nobody else would end a program that sleeps.
    signal.alarm(int(limits["wall_time_s"] * max(1, len(plan["cases"]))) + 5)
    if plan["uid"] is not None:
        set_limit(resource.RLIMIT_NPROC, (limits["processes"],) * 2)
        os.setgroups([])
        os.setresgid(plan["uid"], plan["uid"], plan["uid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])


def round_up(seconds):
    """CPU limits are whole seconds."""
    return -int(-seconds // 1)


class Program:
    """The program's text, its namespace, and the line to the server."""

    def __init__(self, plan, record_fd):
        self.plan = plan
        self.record_fd = record_fd
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        sys.argv = ["main.py"]
        self.namespace = module.__dict__

    def run(self):
        loaded = self.load()
        if not self.plan["cases"]:
            self.record("peak %d" % peak_memory_bytes())
            # A plain program ends as it would by itself: exit handlers run, threads are awaited.
            sys.exit(0 if loaded else 1)
        if loaded:
            self.run_cases()
        self.leave(0 if loaded else 1)

    def run_cases(self):
        for index, case in enumerate(self.plan["cases"]):
            self.start(index)
            if not self.try_case(index, case):
                return
        self.record("done")

    def record(self, text):
        os.write(self.record_fd, (text + "\n").encode("utf-8", "backslashreplace"))

    def leave(self, code):
        """End here and now: no exit handler of the program runs after its verdict."""
        self.record("peak %d" % peak_memory_bytes())
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                code = code or 1
        os._exit(code)

    def load(self):
        """Run the program itself; false if it cannot be."""
        try:
            code = compile(self.plan["code"], "main.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
            return self.refuse("syntax " + describe(error), error)
        except MemoryError as error:
            return self.refuse("syntax the program nests too deeply", error)
        try:
            exec(code, self.namespace)
        except SystemExit as error:
            if not self.plan["cases"]:
                raise
            return self.refuse("crashed " + describe(error), error)
        except MemoryError as error:
            return self.refuse("memory", error)
        except BaseException as error:
            return self.refuse("crashed " + describe(error), error)
        return True

    def refuse(self, text, error):
        self.record(text)
        show(error)
        return False

    def start(self, index):
        until = round_up(time.process_time() + self.plan["limits"]["cpu_time_s"])
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (min(until, hard), hard))
        self.record("start %d" % index)

    def try_case(self, index, case):
        """Run one case and record how it went; false if the process is not worth going on with."""
        try:
            if "function" in case:
                function = self.namespace[case["function"]]
                self.record("value %d %s" % (index, encode(function(*case["args"]))))
            else:
                exec(compile(case["code"], "test.py", "exec", dont_inherit=True), self.namespace)
                self.record("passed %d" % index)
        except MemoryError:
            self.record("memory")
            return False
        except KeyError as error:
            missing = "function" in case and case["function"] not in self.namespace
            text = "NameError: no function " + case["function"] if missing else describe(error)
            self.record("raised %d %s" % (index, text))
        except AssertionError as error:
            kind = "raised" if "function" in case else "failed"
            self.record("%s %d %s" % (kind, index, describe(error)))
        except BaseException as error:
            self.record("raised %d %s" % (index, describe(error)))
        return True


def peak_memory_bytes():
    """From /proc: rusage would count the server's own memory, which this process began as."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def describe(error):
    try:
        text = " ".join(str(error).split())[:MAX_TEXT]
    except BaseException:
        text = ""
    return "%s: %s" % (type(error).__name__, text)


def show(error):
    """The traceback on standard error, without this file's frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == "<string>":
        frames = frames.tb_next
    sys.__excepthook__(type(error), error.with_traceback(frames), frames)


def encode(value, depth=0):
    """JSON with types: exact built-in types only, so that no method of the program's is called."""
    from _json import encode_basestring_ascii as quote

    if depth > MAX_DEPTH:
        raise ValueError("the value returned nests too deeply")
    kind = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return repr(value) if -(2**53) < value < 2**53 else '{"int":"%x"}' % value
    if kind is float:
        plain = value - value == 0.0
        return repr(value) if plain else '{"float":"%r"}' % value
    if kind is str:
        return quote(value)
    if kind is list:
        return "[" + ",".join([encode(item, depth + 1) for item in value]) + "]"
    if kind in (tuple, set, frozenset):
        items = ",".join([encode(item, depth + 1) for item in value])
        return '{"%s":[%s]}' % ("tuple" if kind is tuple else "set", items)
    if kind is dict:
        pairs = ["[%s,%s]" % (encode(k, depth + 1), encode(v, depth + 1)) for k, v in value.items()]
        return '{"dict":[%s]}' % ",".join(pairs)
    return '{"other":%s}' % quote(kind.__name__)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
