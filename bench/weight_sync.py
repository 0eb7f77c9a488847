r"""Measures weight transfer, seconds by phase and memory: tmpfs folder, CUDA IPC, NCCL, gloo, TRL.

A trainer's process holds a randomly initialised Qwen2 of the given shape; vLLM serves the same
shape behind Assay's service, or by `trl vllm-serve`. Each part is a separate process with a time
limit, so a hanging part costs the others nothing. Nothing is fetched.

    python -m bench.weight_sync --shape 7b --parts folder,ipc          # one GPU
    python -m bench.weight_sync --shape 0.36b --parts ipc,folder --processes 4 \
        --mode continue --in-flight 128 --part-limit-s 420 --start-limit-s 300
    python -m bench.weight_sync --shape 7b --parts nccl,trl            # two
    python -m bench.weight_sync --shape tiny --parts folder,gloo --vllm-python .venv-vllm/bin/python
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.shapes import SHAPES, make_model, tokenizer_of

CONTEXT = 1024
PROBE_IDS = list(range(10, 74))
#: The engine's share of memory on a GPU shared with the trainer, and on its own GPU.
SHARED_GPU_MEMORY, OWN_GPU_MEMORY = "0.45", "0.8"
#: Of each of several engines on a GPU: given, so that they may start at once.
CACHE_BYTES = 2 * 2**30
LONG_ANSWER = 512
#: In memory unless the environment names another folder.
WORK = Path(os.environ.get("WEIGHT_SYNC_FOLDER", "/dev/shm/assay-weight-sync"))
STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f} s] {text}", flush=True)


# The model


def device_of(shape: str) -> str:
    import torch

    return "cuda" if torch.cuda.is_available() and shape != "tiny" else "cpu"


def model_of(shape: str) -> Any:
    return make_model(SHAPES[shape], device_of(shape)).eval()


def change(model: Any) -> None:
    """Change every entry a little, as an optimiser would."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=2e-3)
    if next(model.parameters()).is_cuda:
        torch.cuda.synchronize()


def prepare(shape: str) -> None:
    """Write the base folder: a model and its tokenizer."""
    say(f"making a {shape} model")
    model = model_of(shape)
    num_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    say(f"{num_bytes / 1e9:.2f} GB of weights on {model.device}; writing {WORK / 'base'}")
    (WORK / "base").mkdir(parents=True, exist_ok=True)
    model.save_pretrained(WORK / "base", max_shard_size="2GB")
    tokenizer_of(SHAPES[shape]).save_pretrained(WORK / "base")
    say("written")


# What is measured


class GpuMemory:
    """A monitor of peak memory on each GPU while it runs, in GB; needs NVML."""

    def __init__(self) -> None:
        self.peak_gb: list[float] = []
        self.before_gb: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._read: Callable[[], list[float]] | None = None
        with suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            gpus = [
                pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())
            ]
            self._read = lambda: [pynvml.nvmlDeviceGetMemoryInfo(g).used / 1e9 for g in gpus]

    def __enter__(self) -> "GpuMemory":
        if self._read is not None:
            self.before_gb = self.peak_gb = self._read()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        assert self._read is not None
        while not self._ended.wait(0.005):
            now = self._read()
            self.peak_gb = [max(pair) for pair in zip(self.peak_gb, now, strict=True)]


def measure(syncs: int, model: Any, sync: Callable[[int], dict[str, float]]) -> dict[str, Any]:
    """Return seconds by phase of each sync, and memory; the first sync also connects."""
    import torch

    rows = []
    with GpuMemory() as memory:
        for number in range(1, syncs + 1):
            change(model)
            started = time.perf_counter()
            phases = sync(number)
            phases.setdefault("total", time.perf_counter() - started)
            rows.append(phases)
            say(f"sync {number}: " + ", ".join(f"{k} {v:.3f}" for k, v in phases.items()))
    found: dict[str, Any] = {
        "syncs": rows,
        "gpu_before_gb": memory.before_gb,
        "gpu_peak_gb": memory.peak_gb,
    }
    if torch.cuda.is_available():
        found["trainer_reserved_peak_gb"] = torch.cuda.max_memory_reserved() / 1e9
        found["trainer_weights_gb"] = (
            sum(p.numel() * p.element_size() for p in model.parameters()) / 1e9
        )
    return found


# Processes


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[Any]:
    """Run a server in its own session, and end it with all processes of the session."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(url: str, process: Any, log: Path, limit_s: float) -> None:
    import urllib.request

    ends_at = time.monotonic() + limit_s
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            raise SystemExit(f"the server ended:\n{log.read_text()[-3000:]}")
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.5)
    raise SystemExit(f"{url} does not answer:\n{log.read_text()[-3000:]}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def vllm_python(named: str | None) -> str:
    """Return `named`, or an interpreter with our PYTHONPATH, since the service does not pass it."""
    if named:
        return named
    wrapper = WORK / "python"
    path = os.environ.get("PYTHONPATH", "")
    lines = (
        "#!/bin/sh",
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{path}"',
        f'exec {sys.executable} "$@"',
    )
    wrapper.write_text("\n".join(lines) + "\n")
    wrapper.chmod(0o755)
    return str(wrapper)


def memory_options(processes: int, share: str) -> str:
    """Return vLLM's options for the memory of each of `processes` engines on a GPU."""
    if processes == 1:
        return f" --gpu-memory-utilization {share}"
    each = float(share) / processes
    return f" --gpu-memory-utilization {each:.3f} --kv-cache-memory-bytes {CACHE_BYTES}"


@contextmanager
def in_flight(url: str, number: int) -> Iterator[None]:
    """Keep `number` long answers in flight."""
    from assay_shared.clients.http import NO_RETRY
    from assay_shared.clients.inference import InferenceClient
    from assay_shared.errors import InfrastructureError
    from assay_shared.types import GenerateRequest, SamplingParams

    ended = threading.Event()

    async def ask(client: InferenceClient, prompt: int) -> None:
        sampling = SamplingParams(max_tokens=LONG_ANSWER, ignore_eos=True)
        while not ended.is_set():
            ids = tuple(range(prompt + 3, prompt + 35))
            try:
                await client.generate(GenerateRequest(token_ids=ids, sampling=sampling))
            except InfrastructureError as error:
                say(f"a request failed: {error}")
                await asyncio.sleep(0.5)

    async def ask_all() -> None:
        async with InferenceClient(url, retry=NO_RETRY) as client:
            tasks = [asyncio.create_task(ask(client, prompt)) for prompt in range(number)]
            while not ended.is_set():  # noqa: ASYNC110  # set by another thread
                await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(ask_all()), daemon=True)
    thread.start()
    try:
        time.sleep(3.0 if number else 0.0)
        yield
    finally:
        ended.set()
        thread.join(30)


@contextmanager
def service(arguments: argparse.Namespace, gpu: str, memory: str) -> Iterator[str]:
    """Start Assay's inference service on the engine; yield its URL."""
    port, log = free_port(), WORK / f"service-{arguments.part}.log"
    on_gpu = device_of(arguments.shape) == "cuda"
    options = f"--enforce-eager --max-model-len {CONTEXT}"
    environment = os.environ | {
        "ASSAY_INFERENCE_ENGINE": arguments.engine,
        "ASSAY_INFERENCE_VLLM_PYTHON": vllm_python(arguments.vllm_python),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": options
        + (memory_options(arguments.processes, memory) if on_gpu else ""),
        "ASSAY_INFERENCE_PROCESSES": str(arguments.processes),
        "ASSAY_INFERENCE_MAX_SEQUENCES": "64",
        "ASSAY_INFERENCE_LOAD_TIMEOUT_S": "180",
    }
    cards = {"CUDA_VISIBLE_DEVICES": visible(gpu)}
    environment |= cards if on_gpu else {"VLLM_CPU_KVCACHE_SPACE": "1"}
    command = [sys.executable, "-c", "from assay_inference.command import app; app()", "serve"]
    command += ["--port", str(port), "--model", str(WORK / "base")]
    where = f"GPU {gpu}" if on_gpu else "the CPU"
    say(f"starting the service with {arguments.processes} x {arguments.engine} on {where}")
    with running(command, environment, log) as process:
        wait_for(f"http://127.0.0.1:{port}/ready", process, log, arguments.start_limit_s)
        say("the service is ready")
        yield f"http://127.0.0.1:{port}"


def visible(gpu: str) -> str:
    """Return the card that is number `gpu` of those this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return seen.split(",")[int(gpu)] if seen else gpu


# The parts


def by_folder(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure syncs by folder: written to memory, announced, loaded."""
    from transformers import AutoTokenizer

    from assay_shared.types import FolderWeights, PolicyVersion, WeightUpdate
    from assay_trainer.weights.folder import publish_policy

    model = model_of(arguments.shape)
    tokenizer = AutoTokenizer.from_pretrained(WORK / "base", local_files_only=True)
    with service(arguments, "0", SHARED_GPU_MEMORY) as url:

        def sync(number: int) -> dict[str, float]:
            folder = WORK / f"v{number}"
            started = time.perf_counter()
            digest = publish_policy(model, tokenizer, folder)
            written_s = time.perf_counter() - started
            update = WeightUpdate(
                source=FolderWeights(path=str(folder)),
                policy=PolicyVersion(version=number, digest=digest),
                probe=proof_of(model),
                mode=arguments.mode,
            )
            started = time.perf_counter()
            status = announce(url, update)
            took_s = time.perf_counter() - started
            # Keep the newest folder only: it is compared with the engine in the end.
            shutil.rmtree(WORK / f"v{number - 1}", ignore_errors=True)
            checked_s = took_s - sum(status.phases_s.values())
            phases = {"write": written_s, "check": checked_s, **status.phases_s}
            return phases | {"total": written_s + took_s}

        with in_flight(url, arguments.in_flight):
            found = measure(arguments.syncs, model, sync)
        write(arguments, found)
        return found | {"digest": digest_of(url)}


def directly(arguments: argparse.Namespace, gpu: str, memory: str) -> dict[str, Any]:
    from assay_shared.clients.http import NO_RETRY
    from assay_shared.clients.inference import InferenceClient
    from assay_shared.settings.environment import ServiceSettings
    from assay_shared.types import SyncMode
    from assay_trainer.weights.direct import DirectTransfer

    model = model_of(arguments.shape)
    with service(arguments, gpu, memory) as url:

        def connect() -> InferenceClient:
            return InferenceClient(url, retry=NO_RETRY)

        settings = ServiceSettings(weight_transfer_bucket_bytes=arguments.bucket_mb * 2**20)
        transfer = DirectTransfer(settings, connect)

        async def receiver() -> Any:
            async with connect() as client:
                return (await client.weight_status()).receiver

        reached = asyncio.run(receiver())
        say(f"the engine is {reached}")
        transports: set[str] = set()

        def sync(number: int) -> dict[str, float]:
            started = time.perf_counter()
            proof = proof_of(model)
            probed_s = time.perf_counter() - started
            known_s: list[float] = []
            update, status = transfer.publish(
                model,
                reached,
                number,
                proof,
                on_announced=lambda _: known_s.append(time.perf_counter() - started - probed_s),
                mode=SyncMode(arguments.mode),
            )
            transports.add(getattr(update.source, "transport", "folder"))
            phases = {"probe": probed_s, "fingerprints": known_s[0], **status.phases_s}
            total = time.perf_counter() - started
            # The announcement, and what processes wait for; phases are of the slowest.
            return phases | {"other": max(0.0, total - sum(phases.values())), "total": total}

        with in_flight(url, arguments.in_flight):
            found = measure(arguments.syncs, model, sync)
        say(f"the weights went by {', '.join(sorted(transports))}")
        write(arguments, found)
        transfer.close()
        return found | {"transport": sorted(transports), "digest": digest_of(url)}


def by_trl(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure `trl vllm-serve` on the second GPU: in packed buckets, then tensor by tensor."""
    os.environ["VLLM_HOST_IP"] = "127.0.0.1"
    port, log = free_port(), WORK / "trl.log"
    command = [sys.executable, "-m", "trl.scripts.vllm_serve", "--model", str(WORK / "base")]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max_model_len", str(CONTEXT)]
    command += ["--gpu_memory_utilization", OWN_GPU_MEMORY, "--enforce_eager", "True"]
    model = model_of(arguments.shape)
    say("starting trl vllm-serve on GPU 1")
    with running(command, os.environ | {"CUDA_VISIBLE_DEVICES": visible("1")}, log) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process, log, arguments.start_limit_s)
        from trl.generation.vllm_client import VLLMClient

        say("ready; connecting")
        client = VLLMClient(base_url=f"http://127.0.0.1:{port}", group_port=free_port())
        client.init_communicator(device=0)

        def packed(number: int) -> dict[str, float]:
            started = time.perf_counter()
            client.update_model_params(model)
            transferred_s = time.perf_counter() - started
            client.reset_prefix_cache()
            return {"transfer": transferred_s}

        def one_by_one(number: int) -> dict[str, float]:
            started = time.perf_counter()
            with client.weight_update():
                for name, parameter in model.named_parameters():
                    client.update_named_param(name, parameter.data)
            transferred_s = time.perf_counter() - started
            client.reset_prefix_cache()
            return {"transfer": transferred_s}

        found = {"packed": measure(arguments.syncs, model, packed)}
        write(arguments, found)
        say("tensor by tensor")
        return found | {"one_by_one": measure(min(2, arguments.syncs), model, one_by_one)}


def proof_of(model: Any) -> Any:
    from assay_trainer.weights.publisher import probe

    return probe(model, PROBE_IDS)


def announce(url: str, update: Any) -> Any:
    from assay_shared.clients.http import NO_RETRY
    from assay_shared.clients.inference import InferenceClient

    async def send() -> Any:
        async with InferenceClient(url, retry=NO_RETRY) as client:
            return await client.update_weights(update)

    return asyncio.run(send())


def digest_of(url: str) -> dict[str, Any]:
    """Return the full comparison of weights, and the result of the last probe.

    Several processes are compared after each load; together they have no full comparison.
    """
    from assay_shared.clients.http import NO_RETRY
    from assay_shared.clients.inference import InferenceClient

    async def ask() -> dict[str, Any]:
        async with InferenceClient(url, retry=NO_RETRY) as client:
            status = await client.weight_status()
            if status.replicas:
                kept = {"num_compared", "num_tensors", "probe_difference"}
                shown_status = status.model_dump(include=kept)
                say(f"{len(status.replicas)} processes serve {status.policy}: {shown_status}")
                return shown_status
            shown = await client.weight_digest()
        say(f"probe differs by {status.probe_difference} nats at most; {shown}")
        return shown.model_dump() | {"probe_difference": status.probe_difference}

    return asyncio.run(ask())


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "folder": by_folder,
    "gloo": lambda a: directly(a, "0", SHARED_GPU_MEMORY),
    "ipc": lambda a: directly(a, "0", SHARED_GPU_MEMORY),
    "nccl": lambda a: directly(a, "1", OWN_GPU_MEMORY),
    "trl": by_trl,
}


def write(arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    Path(arguments.result).write_text(json.dumps(found, indent=1))


def run_part(arguments: argparse.Namespace, part: str) -> dict[str, Any]:
    """Run a part in a separate process and return its result; after a failure, a partial result."""
    result = WORK / f"{part}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.weight_sync", "--part", part, "--result", str(result)]
    command += ["--shape", arguments.shape, "--syncs", str(arguments.syncs)]
    command += ["--bucket-mb", str(arguments.bucket_mb), "--processes", str(arguments.processes)]
    command += ["--mode", arguments.mode, "--in-flight", str(arguments.in_flight)]
    command += ["--start-limit-s", str(arguments.start_limit_s), "--engine", arguments.engine]
    command += ["--vllm-python", arguments.vllm_python] if arguments.vllm_python else []
    say(f"--- {part}")
    started = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code: int | str = process.wait(arguments.part_limit_s)
    except subprocess.TimeoutExpired:
        code = f"ran past {arguments.part_limit_s:g} s"
        process.terminate()  # its server is ended on the way out
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    found = json.loads(result.read_text()) if result.exists() else {}
    return found | {"exit": code, "took_s": round(time.monotonic() - started, 1)}


def print_table(found: dict[str, Any]) -> None:
    """Print the median of all syncs but the first, which also connects."""
    import statistics

    print(f"\n{'part':18} {'first':>8} {'median':>8}  by phase (medians, s)")
    for part, result in found.items():
        named = (
            {part: result}
            if "syncs" in result
            else {f"{part} {kind}": one for kind, one in result.items() if isinstance(one, dict)}
        )
        for name, one in named.items():
            rows = one.get("syncs") or []
            later = rows[1:] or rows
            if not later:
                continue
            medians = {k: statistics.median(row.get(k, 0.0) for row in later) for k in later[0]}
            phases = ", ".join(f"{k} {v:.3f}" for k, v in medians.items() if k != "total")
            print(f"{name:18} {rows[0]['total']:8.3f} {medians['total']:8.3f}  {phases}")
            print(
                f"{'':18} GPU in use before {[round(x, 1) for x in one['gpu_before_gb']]} GB, at "
                f"most {[round(x, 1) for x in one['gpu_peak_gb']]} GB; the trainer reserved at "
                f"most {one.get('trainer_reserved_peak_gb', 0):.1f} GB for "
                f"{one.get('trainer_weights_gb', 0):.1f} GB of weights"
            )
        if result.get("exit"):
            print(f"{part:18} ended with {result['exit']} after {result['took_s']} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--parts", default="folder,ipc")
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--syncs", type=int, default=5)
    parser.add_argument("--bucket-mb", type=int, default=1024)
    parser.add_argument("--processes", type=int, default=1, help="engines on the one GPU")
    parser.add_argument("--mode", choices=("wait", "restart", "continue"), default="wait")
    parser.add_argument("--in-flight", type=int, default=0, help="long answers while weights come")
    parser.add_argument("--part-limit-s", type=float, default=280)
    parser.add_argument("--start-limit-s", type=float, default=200)
    parser.add_argument("--engine", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--vllm-python", help="Python of another environment with vLLM")
    parser.add_argument("--output", type=Path, default=Path("weight_sync.json"))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
        if arguments.part == "prepare":
            return prepare(arguments.shape)
        return write(arguments, PARTS[arguments.part](arguments))
    parts = arguments.parts.split(",")
    if unknown := set(parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {list(PARTS)}")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    found: dict[str, Any] = {}
    try:
        prepared = run_part(arguments, "prepare")
        if prepared["exit"]:
            sys.exit(f"no model: {prepared}")
        for part in parts:
            found[part] = run_part(arguments, part)
            shown = {"shape": arguments.shape, "parts": found}
            arguments.output.write_text(json.dumps(shown, indent=1))
    finally:
        for log in WORK.glob("*.log"):
            shutil.copy(log, arguments.output.with_name(log.name))
        shutil.rmtree(WORK, ignore_errors=True)
    print_table(found)


if __name__ == "__main__":
    main()
