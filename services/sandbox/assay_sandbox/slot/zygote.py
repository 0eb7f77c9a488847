"""The zygote: the first process of a slot, a warm interpreter forked once for every program.

The zygote reads requests from its socket in turn. It answers each request after the program and its
descendants are gone and the folders are empty. Only the fork reads a program's text, so nothing of
a program is in the memory of the next.
"""

import _signal  # type: ignore[import-not-found]
import gc
import json
import marshal
import os
import resource
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress

from assay_sandbox.slot import names, pinned, verify
from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.accounting.meter import Meter, MeterPlace
from assay_sandbox.slot.accounting.watch import BEGIN_CASE, KILL, Watch
from assay_sandbox.slot.confinement import kernel, landlock, root, seccomp
from assay_sandbox.slot.confinement.cgroup import Cgroup
from assay_sandbox.slot.confinement.rights import Rights
from assay_sandbox.slot.grading import grader, remote
from assay_sandbox.slot.program import cells, ending, files, harness
from assay_sandbox.slot.verify import Unclean

READY = b"R"
MAX_MESSAGE_BYTES = 65536
#: A low version, readable by every interpreter.
MARSHAL_VERSION = 2
#: Standard streams, records, the plan, and either a channel or a destination for requested files.
NUM_DESCRIPTORS = 6
#: If ending all processes takes longer, the slot is given up.
_CLEAN_TIMEOUT_S = 1.0
_PICK_UP_TIMEOUT_S = 5.0
_exit = os._exit
_FOR_ONE_PROGRAM = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
#: Soft and hard limits. Many programs ask for a larger stack, and may: it counts as memory.
_FIXED_LIMITS = (
    (resource.RLIMIT_NOFILE, 256, 256),
    (resource.RLIMIT_STACK, 64 * 2**20, resource.RLIM_INFINITY),
    (resource.RLIMIT_CORE, 0, 0),
)
#: Modules imported most by programs: loaded once, here.
_PRELOADED = [
    *("atexit", "bisect", "cmath", "codecs", "collections", "contextlib", "copy", "datetime"),
    *("decimal", "encodings.utf_8", "enum", "fractions", "functools", "heapq", "io"),
    *("itertools", "json", "linecache", "math", "operator", "random", "re", "statistics"),
    *("string", "threading", "tokenize", "traceback", "types", "typing", "warnings"),
]


def warm_up(imported: list[str], packages: str, own_packages: str, home: str) -> None:
    """Import the modules of programs in advance, in the parent process of all slots.

    `packages` is the folder to import from, as well as the library. Programs find it at
    `own_packages`, and the folder of the interpreter at `home`.

    Fork hooks registered by modules are kept for a program's own forks. In the fork for a program,
    with no thread and no lock to fix, the hooks would double the time.
    """
    register = os.register_at_fork
    os.register_at_fork = lambda **hooks: harness.FORK_HOOKS.append(hooks)
    # Modules are found by `packages`, also their path in slots unless `names.move` changes it.
    own_path, sys.path[-1] = sys.path[-1], packages
    try:
        for name in (*_PRELOADED, *imported):
            __import__(name)
    finally:
        sys.path[-1] = own_path
        os.register_at_fork = register
    if own_packages != packages:
        names.move(packages, own_packages)
    compile("print(1)", "main.py", "exec")
    harness.PARTS.update(
        session=cells.run, grader=grader.run, served=remote.serve, pages=pinned.be_program
    )
    harness.prepare_streams()
    names.finish()
    harness.settle_interpreter(home)


class Zygote:
    """The first process of a slot. `serve` returns when the server has closed the socket."""

    def __init__(
        self, server: socket.socket, rights: Rights, cgroup: Cgroup | None, isolation: str
    ) -> None:
        self._server = server
        self._rights = rights
        self._cgroup = cgroup
        self._isolation = isolation
        #: True if the signals of this process reach only its programs.
        self._is_alone = rights.has_namespaces
        folders = rights.writable if rights.has_namespaces else ()
        self._place = MeterPlace(cgroup, rights.events_fd, rights.has_namespaces, folders)
        self._forbid_namespaces = kernel.SyscallFilter(seccomp.for_programs())
        self._baseline: verify.Baseline
        self._script = f"{rights.work}/{harness.SCRIPT}"
        #: Why the cleanup after the last program failed, if it did.
        self._left: str | None = None
        #: Descriptor to keep the pages written by programs pinned.
        self._pins: int | None = None

    def settle(self) -> None:
        """Set up everything inherited by programs and done once for all of them."""
        rights = self._rights
        os.environ.clear()
        os.environ.update(
            PATH=rights.path,
            HOME=rights.work,
            TMPDIR="/tmp" if rights.has_namespaces else rights.work,
            LANG="C.UTF-8",
            PYTHONHASHSEED="0",
            OMP_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1",
        )
        os.chdir(rights.work)
        verify.forget_handlers()
        if self._cgroup is not None and self._cgroup.cpu is not None:
            self._cgroup.cpu.hold_slot()
        for kind, soft, hard in _FIXED_LIMITS:
            ceiling = resource.getrlimit(kind)[1]  # the service may have been given less
            wanted = [n for n in (hard, ceiling) if n != resource.RLIM_INFINITY]
            hard = min(wanted, default=resource.RLIM_INFINITY)
            resource.setrlimit(
                kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
            )
        if rights.changes_user:
            os.setgroups([])
        if rights.changes_user and not rights.has_namespaces:
            self._kill_all()  # an earlier slot of this user may have left processes
        harness.rehearse()
        gc.collect()
        gc.freeze()  # the collector would touch, and so copy, every page in every child
        if self._isolation == "pooled":
            kernel.hide_memory(False)  # no program is here to read it, and this process must
            self._pins = pinned.pin_what_programs_write(self._become)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))  # pinned memory counts as locked
        kernel.hide_memory(True)
        kernel.forbid_new_privileges()
        if not (self._is_alone or rights.changes_user):
            self._is_alone = landlock.version() >= landlock.SCOPE_VERSION
            if self._is_alone:
                landlock.restrict_signals()
        self._baseline = verify.Baseline(
            rights.writable,
            has_namespaces=rights.has_namespaces,
            is_alone=rights.has_namespaces,
        )
        rights.filter.put_on()

    def serve(self) -> None:
        self._server.send(READY)
        while True:
            message, descriptors, _, _ = socket.recv_fds(
                self._server, MAX_MESSAGE_BYTES, NUM_DESCRIPTORS
            )
            if not message:
                return
            if message in (KILL, BEGIN_CASE):
                continue  # the program had ended already
            self._answer(message, descriptors)
            if self._isolation == "single_use":
                return

    def _answer(self, message: bytes, descriptors: list[int]) -> None:
        if self._isolation == "fresh":
            self._answer_apart(message, descriptors)
        else:
            self._server.send(json.dumps(self._play(message, descriptors)).encode())
        for fd in descriptors:
            os.close(fd)
        # Checked after the answer: a failure here costs this program nothing, and no other program
        # gets an unchecked slot.
        if self._left is not None:
            raise Unclean(self._left)
        self._baseline.check()

    def _answer_apart(self, message: bytes, descriptors: list[int]) -> None:
        """Answer from a copy of this process, the first process of this program's namespaces."""
        network = kernel.CLONE_NEWNET if self._rights.loopback else 0
        pid = kernel.clone(_FOR_ONE_PROGRAM | network)
        if pid == 0:
            if self._rights.loopback:
                kernel.raise_loopback()
            root.mount_own(self._rights.writable_bytes)
            os.chdir(self._rights.work)
            self._forbid_namespaces.put_on()
            self._server.send(json.dumps(self._play(message, descriptors)).encode())
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise Unclean("the namespaces of a program ended early")

    def _play(self, message: bytes, descriptors: list[int]) -> dict[str, object]:
        """Run a program to its end, leave nothing of it, and return the answer."""
        request = marshal.loads(message)
        limits = request["limits"]
        meter = Meter(self._place, limits["memory_bytes"])
        ending.prepare_begin()
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            self._become(request, descriptors)
        case_cpu_s = limits.get("cell_cpu_time_s", limits["cpu_time_s"])
        watch = Watch(self._server, meter, case_cpu_s, limits["wall_time_s"])
        self._await_end(pid, watch)
        _, status, usage = os.wait4(pid, 0)
        ended = time.monotonic()
        meter.stop()
        reaped_s = usage.ru_utime + usage.ru_stime + self._end_all()
        cpu_time_s = meter.total_cpu_time_s(reaped_s)
        case_cpu_times_s = watch.finish(cpu_time_s)
        out_of_memory, out_of_memory_around = meter.was_out_of_memory()
        if request["fetch"]:
            self._pick_up(request, descriptors[-1])
        self._empty_folders()
        return {
            "status": status,
            "killed_by_server": watch.killed_by_server,
            "cpu_time_s": cpu_time_s,
            "case_cpu_times_s": [max(0.0, round(one, 6)) for one in case_cpu_times_s],
            "wall_time_s": ended - started,
            "idle_time_s": watch.idle_time_s,
            "clean_time_s": time.monotonic() - ended,
            "peak_memory_bytes": max(meter.peak_memory_bytes(), usage.ru_maxrss * 1024),
            "out_of_cpu": watch.out_of_cpu,
            "out_of_memory": out_of_memory,
            "out_of_memory_around": out_of_memory_around,
        }

    def _pick_up(self, request: dict[str, object], fd: int) -> None:
        """Copy the requested files, in a process with the program's rights."""
        pid = os.fork()
        if pid == 0:
            try:
                self._give_up_rights()
                with open(fd, "rb", closefd=False) as file:
                    patterns = marshal.load(file)
                found = files.pick_up(patterns, request["fetch_bytes"])  # type: ignore[arg-type]
                os.ftruncate(fd, 0)
                os.lseek(fd, 0, os.SEEK_SET)
                with open(fd, "wb", closefd=False) as file:
                    marshal.dump(found, file, MARSHAL_VERSION)
            finally:
                os._exit(0)
        # Messages of the server meanwhile concern the ended program: they are not read here.
        tree.end(pid, _PICK_UP_TIMEOUT_S)

    def _empty_folders(self) -> None:
        if self._isolation == "fresh":
            return  # they end with the namespaces
        try:
            # Most programs leave their text, and nothing else.
            with suppress(OSError):
                os.unlink(self._script)
            for folder in self._rights.writable:
                if not self._baseline.is_empty(folder):
                    root.wipe(folder)
        except OSError as error:
            self._left = f"a folder cannot be emptied: {error}"

    def _await_end(self, pid: int, watch: Watch) -> None:
        """Wait until the program itself has ended or was killed, see `Watch`."""
        watch.wait(pid)
        if watch.is_server_gone:
            self._kill_all()
            os._exit(0)

    def _end_all(self) -> float:
        """Kill and reap the program's descendants; return the CPU seconds of those reaped here."""
        deadline = time.monotonic() + _CLEAN_TIMEOUT_S
        cpu_time_s = 0.0
        while True:
            self._kill_all()
            try:
                while True:
                    options = 0 if self._rights.has_namespaces else os.WNOHANG
                    pid, _, usage = os.wait4(-1, options)
                    if pid == 0:
                        break
                    cpu_time_s += usage.ru_utime + usage.ru_stime
            except ChildProcessError:
                return cpu_time_s
            if time.monotonic() > deadline:
                self._left = "processes of a program cannot be killed"
                return cpu_time_s
            time.sleep(0.001)

    def _kill_all(self) -> None:
        if self._is_alone:
            _kill_everybody()  # all others of its namespace, or of its Landlock domain
        elif self._rights.changes_user:
            pid = os.fork()
            if pid == 0:
                os.setresuid(self._rights.uid, self._rights.uid, self._rights.uid)
                _kill_everybody()  # as the slot's user: all of its processes, and this one
                os._exit(0)
            os.waitpid(pid, 0)
        else:
            for pid in tree.children(os.getpid()):
                os.kill(pid, signal.SIGKILL)

    def _become(self, request: dict[str, object], descriptors: list[int]) -> None:
        """Turn this fork into the program. Does not return."""
        stdin, stdout, stderr, record, plan = descriptors[:5]
        channel = descriptors[5] if request["has_channel"] else None
        status = harness.NOT_STARTED
        try:
            if self._cgroup is not None:
                self._cgroup.join()
            os.setsid()
            for target, fd in enumerate((stdin, stdout, stderr)):
                os.dup2(fd, target)
            kept = {record, plan} if channel is None else {record, plan, channel}
            if self._rights.ruleset_fd is not None:
                kept.add(self._rights.ruleset_fd)
            kernel.close_all_but(kept)
            _set_limits(request["limits"], request["num_cases"])  # type: ignore[arg-type]
            if self._cgroup is None:
                _limit_data(request["limits"])  # type: ignore[arg-type]
            self._give_up_rights()
            # Programs expect this handler. Set from C: `signal.signal` would touch pages of `enum`.
            _signal.signal(signal.SIGINT, _signal.default_int_handler)
            status = harness.run(plan, record, channel)
        finally:
            _exit(status)  # `os` may be changed by the program

    def _give_up_rights(self) -> None:
        rights = self._rights
        if rights.changes_user:
            os.setresgid(rights.uid, rights.uid, rights.uid)
            os.setresuid(rights.uid, rights.uid, rights.uid)  # takes all capabilities along
        else:
            kernel.drop_capabilities()
        if not rights.has_namespaces:
            kernel.die_with_parent()
        kernel.hide_memory(False)  # a program may open /dev/stdin
        if rights.ruleset_fd is not None:
            landlock.restrict(rights.ruleset_fd)
            os.close(rights.ruleset_fd)


def _kill_everybody() -> None:
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def _set_limits(limits: dict[str, float], num_cases: int) -> None:
    # The kernel counts whole ticks for this limit, maybe too many: the watch decides, and this
    # limit ends a program forgotten by the watch.
    cpu_s = harness.round_up(limits["cpu_time_s"] * max(1, num_cases) * 1.25) + 2
    for kind, limit in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_NPROC, int(limits["processes"])),
    ):
        resource.setrlimit(kind, (limit, limit))


def _limit_data(limits: dict[str, float]) -> None:
    """Bound the memory of each process, on hosts unable to count the memory of the tree."""
    memory_bytes = int(limits["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def play_slot(server: socket.socket, rights: Rights, cgroup: Cgroup | None, isolation: str) -> None:
    """Run a slot until the server is gone. Errors of a ready slot are printed, never answered."""
    zygote = Zygote(server, rights, cgroup, isolation)
    zygote.settle()
    status = 1
    try:
        zygote.serve()
        status = 0
    except Unclean as error:
        print(f"slot: {error}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
