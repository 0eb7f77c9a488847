"""The daemon: builds slots and hands their sockets to the server.

A small separate process, started clean: its forks have no thread, no secret and no open file of the
server.
"""

import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any

from assay_sandbox.slot import zygote
from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.confinement import cgroup, kernel, landlock, root, seccomp
from assay_sandbox.slot.confinement.rights import Rights

#: The only isolation level without namespaces.
FALLBACK = "fallback"
_READY_TIMEOUT_S = 20.0
#: Time for a slot without namespaces to end its program, after the server has closed its socket.
_LEAVE_TIMEOUT_S = 1.0
_MESSAGE_BYTES = 4096
#: Replaces the service's umask: slots' users must be able to read the files shown to them.
_UMASK = 0o022
#: Signals ignored by every Python interpreter.
_IGNORED = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_ALL_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
#: Ids inside a slot with two users: the slot's first process, and its programs.
_SLOT_UID, _PROGRAM_UID = 0, 1000
#: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID and SYS_ADMIN: a first process needs them to
#: become its programs' user, to kill and clean up after programs, and to make their namespaces.
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 5, 6, 7, 21})


@dataclass(frozen=True)
class SlotConfig:
    """The server's settings for all slots.

    Each slot takes two users from `first_uid` up; without it, all slots have the daemon's own user.
    """

    isolation: str
    first_uid: int | None
    readable: list[str]
    writable_bytes: int
    #: Mount point of the slots' root, or else the folder of their folders. The server removes it.
    folder: str
    #: Search path of programs for commands.
    path: str
    #: Virtual environment of the programs' interpreter; it may have another path in slots.
    python_home: str
    #: Modules imported before a program begins, and the folder to import them from.
    imported: list[str]
    packages: str
    #: True if a program may speak TCP and UDP to itself, in its own network.
    loopback: bool = False

    @property
    def has_namespaces(self) -> bool:
        return self.isolation != FALLBACK

    @property
    def own_python_home(self) -> str:
        """Folder of the interpreter, as seen by programs."""
        return root.PYTHON if self.has_namespaces else self.python_home

    @property
    def own_packages(self) -> str:
        """Folder of packages, as seen by programs."""
        return root.place_of(self.packages) if self.has_namespaces else self.packages

    def users(self, slot: int) -> tuple[int, int]:
        """Return two user ids on the host: the slot's own, and its programs'."""
        assert self.first_uid is not None
        return self.first_uid + 2 * slot, self.first_uid + 2 * slot + 1


class Daemon:
    """The slots of a server, by number."""

    def __init__(self, server: socket.socket, config: SlotConfig) -> None:
        self._server = server
        self.config = config
        self._pids: dict[int, int] = {}
        self._cgroups: dict[int, cgroup.Cgroup] = {}
        self._cgroup_parent = cgroup.find_parent()
        self._events_fd = cgroup.open_own_events() if self._cgroup_parent is None else None
        rules = seccomp.Rules(
            # Without namespaces, programs could reach the names of all sockets of the host.
            local_sockets=config.has_namespaces,
            loopback=config.loopback,
            memory_files=self._cgroup_parent is not None,
            own_files=config.has_namespaces or config.first_uid is not None,
            namespaces=config.isolation == "fresh",
        )
        self._filter = kernel.SyscallFilter(seccomp.for_this_machine(rules))
        self._folder = config.folder

    def open(self) -> None:
        """Build the root folder of slots, in the daemon's own mount namespace."""
        if not self.config.has_namespaces:
            kernel.adopt_orphans()  # processes left by a slot with a killed first process
            return
        if self.config.first_uid is not None:
            kernel.unshare(kernel.CLONE_NEWNS)
        else:
            uid, gid = os.geteuid(), os.getegid()
            kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUSER)
            _map_ids(os.getpid(), {0: uid}, {0: gid})
        root.build(self._folder, self.config.readable, self.config.python_home)

    def serve(self) -> None:
        """Make and end slots at the server's request, until the server is gone."""
        while message := self._next_message():
            request = json.loads(message)
            number = int(request["number"])
            self._end(number)
            if request["do"] == "end":
                self._server.send(json.dumps({"ended": number}).encode())
                continue
            try:
                mine = self._start(number)
            except OSError as error:
                self._end(number)
                self._server.send(json.dumps({"error": str(error)}).encode())
                continue
            with mine:
                answer = json.dumps({"made": number}).encode()
                socket.send_fds(self._server, [answer], [mine.fileno()])

    def _next_message(self) -> bytes:
        try:
            return self._server.recv(_MESSAGE_BYTES)
        except ConnectionResetError:  # the server left before it had read our last answer
            return b""

    def close(self) -> None:
        for number in list(self._pids):
            self._end(number)

    def _end(self, number: int) -> None:
        pid = self._pids.pop(number, None)
        if pid is not None:
            tree.end(pid, 0.0 if self.config.has_namespaces else _LEAVE_TIMEOUT_S)
            self._end_orphans()
        group = self._cgroups.pop(number, None)
        if group is not None:
            group.close()

    def _end_orphans(self) -> None:
        """End processes left by an ended slot: without namespaces, this process is their parent."""
        slots = set(self._pids.values())
        deadline = time.monotonic() + _LEAVE_TIMEOUT_S
        while time.monotonic() < deadline:
            left = set(tree.children(os.getpid())) - slots
            if not left:
                return
            for pid in left:
                tree.end(pid, 0.0)

    def _start(self, number: int) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gate, opener = os.pipe()
        if self._cgroup_parent is not None:
            self._cgroups[number] = cgroup.of_slot(self._cgroup_parent, number)
        try:
            # Containers may refuse clone3, which only namespaces need.
            pid = kernel.clone(_ALL_NAMESPACES) if self.config.has_namespaces else os.fork()
            if pid == 0:
                os.close(opener)
                ours.close()
                self._be_slot(number, theirs, gate)
            self._pids[number] = pid
            if self.config.has_namespaces:
                self._map_slot(number, pid)
            os.write(opener, b"1")
        finally:
            theirs.close()
            os.close(gate)
            os.close(opener)
        ours.settimeout(_READY_TIMEOUT_S)
        answer = ours.recv(_MESSAGE_BYTES)
        if answer != zygote.READY:
            raise OSError(answer.decode() or "a slot ended before it was ready")
        ours.settimeout(None)
        return ours

    def _map_slot(self, number: int, pid: int) -> None:
        if self.config.first_uid is None:
            _map_ids(pid, {0: 0}, {0: 0})
            return
        own, programs = self.config.users(number)
        users = {_SLOT_UID: own, _PROGRAM_UID: programs}
        _map_ids(pid, users, users, deny_groups=False)

    def _be_slot(self, number: int, server: socket.socket, gate: int) -> None:
        """Become a slot once the ids are mapped. Runs in the child, and does not return."""
        try:
            os.read(gate, 1)
            kernel.die_first()  # before the user changes, and /proc with it
            group = self._cgroups.get(number)
            rights = self._rights(number)
            kept = {server.fileno()} | (group.descriptors if group else set())
            kept |= {fd for fd in (rights.ruleset_fd, rights.events_fd) if fd is not None}
            kernel.close_all_but(kept)
            with kernel.opened(os.devnull, os.O_RDWR) as null:
                os.dup2(null, 0)
            if self.config.has_namespaces:
                if self.config.first_uid is not None:
                    os.setresgid(0, 0, 0)
                    os.setresuid(0, 0, 0)
                root.enter(self._folder, self.config.writable_bytes)
            else:
                kernel.adopt_orphans()
            kernel.die_with_parent()
            if self.config.has_namespaces:
                kernel.ignore_setuid_root()
                if self.config.loopback:
                    kernel.raise_loopback()
            kernel.drop_bounding_set(_KEPT_CAPABILITIES)
            zygote.play_slot(server, rights, group, self.config.isolation)
        except BaseException as error:
            server.send(f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(1)

    def _rights(self, number: int) -> Rights:
        changes_user = self.config.first_uid is not None
        if self.config.has_namespaces:
            return Rights(
                uid=_PROGRAM_UID if changes_user else 0,
                changes_user=changes_user,
                has_namespaces=True,
                filter=self._filter,
                ruleset_fd=None,
                events_fd=self._events_fd,
                work=root.WORK,
                writable=root.WRITABLE,
                writable_bytes=self.config.writable_bytes,
                path=f"{self.config.own_python_home}/bin:{self.config.path}",
                loopback=self.config.loopback,
            )
        uid = self.config.users(number)[1] if changes_user else os.geteuid()
        work = root.make_work(f"{self._folder}/{number}", uid if changes_user else None)
        shown = [*self.config.readable, self.config.python_home]
        readable = [*root.SHOWN, *shown, "/dev/zero", "/dev/urandom", "/dev/random"]
        return Rights(
            uid=uid,
            changes_user=changes_user,
            has_namespaces=False,
            filter=self._filter,
            ruleset_fd=landlock.make_ruleset(readable, [work, "/dev/null"]),
            events_fd=self._events_fd,
            work=work,
            writable=(work,),
            writable_bytes=self.config.writable_bytes,
            path=f"{self.config.own_python_home}/bin:{self.config.path}",
            loopback=False,
        )


def _map_ids(
    pid: int, users: dict[int, int], groups: dict[int, int], *, deny_groups: bool = True
) -> None:
    """Map ids inside a user namespace to ids outside.

    Without privilege a process may map only its own ids, and must give up setgroups for it.
    """
    if deny_groups:
        _write(f"/proc/{pid}/setgroups", "deny")
    for name, ids in (("uid_map", users), ("gid_map", groups)):
        _write(f"/proc/{pid}/{name}", "".join(f"{a} {b} 1\n" for a, b in ids.items()))


def _reset_signals() -> None:
    """Restore the default of signals ignored by the service, but not by a fresh interpreter."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) == signal.SIG_IGN and number not in _IGNORED:
            signal.signal(number, signal.SIG_DFL)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def main(server: socket.socket, config: dict[str, Any]) -> None:
    """Run the daemon until the server closes the socket."""
    kernel.hide_arguments()
    os.umask(_UMASK)
    _reset_signals()
    try:
        daemon = Daemon(server, SlotConfig(**config))
        own = daemon.config
        zygote.warm_up(own.imported, own.packages, own.own_packages, own.own_python_home)
        daemon.open()
    except OSError as error:
        server.send(json.dumps({"error": str(error)}).encode())
        return
    server.send(json.dumps({"ready": True}).encode())
    try:
        daemon.serve()
    finally:
        daemon.close()
