"""Opens directories that no other user can replace or write to, because workers run code that lies in them.

Below /tmp or /scratch, another user may create a name first, or swap a directory for another one between a check and
its use. So a path is walked step by step from `/`: each directory is opened relative to the descriptor of the one above
it, without following links, and then judged by that descriptor, as sshd judges the path to a user's keys. The caller
gets the last descriptor, and opens everything below through it (`launcher.on_host.agent.below`). What was judged can
then no longer be swapped.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
import struct

BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH alone would not make autofs mount a home directory; O_DIRECTORY does."""
LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_LINKS = 40
"""Symbolic links in one path, the kernel's own limit."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
ACL, ACL_HEAD = "system.posix_acl_access", 4
ACL_USER, ACL_GROUP, ACL_WRITE = 0x02, 0x08, 0x02
"""Tags of ACL entries that name a user or a group, and the bit for writing."""
NOBODY = 65534
"""The owner that a user namespace shows for files of users outside of it."""
WOULD_RUN = ", and workers would run that"
"""The middle of every message about a path: after what is unsafe, before what to do about it."""


class UnsafeError(OSError):
    """Another user can decide what is at a path; the message says who, and what to do."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(errno.EPERM, what, place)

    def __str__(self) -> str:
        """The path, then the message."""
        return f"{self.filename}: {self.strerror}"


def own_directory(path: str, key: str, *, private: bool) -> int:
    """Open a directory; it and missing parents are made with mode 0700.

    Args:
        path: relative to the home directory unless it begins with `/`.
        key: the key of the cluster file that names it, for errors.
        private: only we use it, so it must not be a link, and only we may write in it. Otherwise it is the user's own
            directory: it may be reached by a link, and be writable for a group that only this user is in.

    Raises:
        UnsafeError: another user can write in it or replace it.
        OSError: no room, no permission...
    """
    walk = _Walk(key)
    try:
        made = walk.go(
            os.path.join(os.getcwd(), os.path.expanduser("~"), os.path.expanduser(path)), by_link=not private
        )
        directory = os.open(".", BELOW, dir_fd=walk.directory)
        try:
            if private:
                _judge_private(directory, walk.place, key, made)
            else:
                _judge_users(directory, walk, key)
        except OSError:
            os.close(directory)
            raise
        return directory
    finally:
        walk.close()


def refuse_widened(directory: int, key: str) -> None:
    """Check an open private directory again.

    Raises:
        UnsafeError: its permissions have changed, and others may write in it now.
    """
    _judge_private(directory, os.readlink(f"/proc/self/fd/{directory}"), key, made=False)


def why_unsafe(path: str, key: str, *, is_new: bool) -> str:
    """The message with which `own_directory` would refuse a directory as unsafe; empty if it would not. Makes nothing.

    Args:
        path: the directory, or (`is_new`) the one in which a private directory is about to be made.
        key: the key of the cluster file that names it.
        is_new: only that private directory will be used, so others may write in this one if it has the sticky bit.
    """
    walk = _Walk(key, makes=False)
    try:
        walk.go(os.path.join(os.getcwd(), os.path.expanduser("~"), os.path.expanduser(path)), by_link=True)
        if not is_new and walk.is_complete:
            _judge_users(walk.directory, walk, key)
    except UnsafeError as error:
        return str(error)
    except OSError:
        return ""  # it cannot be used for other reasons
    finally:
        walk.close()
    return ""


def reopened(path: str) -> int:
    """Open a directory that the agent has made before.

    Raises:
        UnsafeError: it is a link or belongs to another user by now.
        OSError: it is missing...
    """
    try:
        directory = os.open(path, BELOW)
    except OSError as error:
        raise not_a_directory(error, path) from error
    if not is_ours(directory):
        owner = user_name(os.fstat(directory).st_uid)
        os.close(directory)
        raise UnsafeError(path, f"it belongs to {owner}, who has put it in the place of the one that was made here")
    return directory


class _Walk:
    """A walk from `/` to a directory. Every step is refused if its owner or others could use it against us."""

    def __init__(self, key: str, *, makes: bool = True) -> None:
        self._key = key
        self._makes = makes
        """Make missing directories; otherwise the walk ends at the first one."""
        self.is_complete = True
        """Whether the walk has reached the end of the path."""
        self._links = 0
        self._passed: list[tuple[int, str, bool]] = []
        """Of each directory so far the descriptor, the path, and whether only its owner and root can write in it."""
        self._enter(os.open("/", STEP), "/")

    @property
    def directory(self) -> int:
        """The descriptor of the current directory."""
        return self._passed[-1][0]

    @property
    def place(self) -> str:
        """The path of the current directory, without links."""
        return self._passed[-1][1]

    def close(self) -> None:
        for fd, _, _ in self._passed:
            os.close(fd)

    def go(self, path: str, *, by_link: bool) -> bool:
        """Walk to the end of a path; return whether the last directory was made."""
        made = False
        steps = _steps(path)
        while steps:
            name = steps.pop()
            if name == "..":
                self._back()
                continue
            if not steps and not by_link:
                made = self._make(name)
                self._passed.append((self._opened(name), os.path.join(self.place, name), True))
                continue
            try:
                fd = os.open(name, STEP, dir_fd=self.directory)
            except FileNotFoundError:
                if not self._makes:
                    self.is_complete = False
                    return False
                made = self._make(name)
                steps.append(name)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise OSError(error.errno, error.strerror, os.path.join(self.place, name)) from error
                steps += self._followed(name)
            else:
                self._enter(fd, os.path.join(self.place, name))
        return made

    def _back(self) -> None:
        if len(self._passed) > 1:
            os.close(self._passed.pop()[0])

    def _make(self, name: str) -> bool:
        try:
            os.mkdir(name, 0o700, dir_fd=self.directory)
        except FileExistsError:
            return False
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.path.join(self.place, name)) from error
        return True

    def _opened(self, name: str) -> int:
        try:
            return os.open(name, STEP, dir_fd=self.directory)
        except OSError as error:
            raise not_a_directory(error, os.path.join(self.place, name)) from error

    def _enter(self, fd: int, place: str) -> None:
        found = os.fstat(fd)
        closed = self._passed[-1][2] if self._passed else True
        writers = _other_writers(fd, found)
        self._passed.append((fd, place, not writers))
        self._judge_owner(found, place, closed)
        if writers and not found.st_mode & stat.S_ISVTX:
            raise UnsafeError(
                place,
                f"{writers} can put something else in the place of what lies in it "
                f"(mode {stat.S_IMODE(found.st_mode):04o}, no sticky bit){WOULD_RUN}; "
                f"`chmod {'+t' if found.st_mode & stat.S_IWOTH else 'g-w'} {_quoted(place)}` closes it, "
                f"or name another `{self._key}`",
            )

    def _judge_owner(self, found: os.stat_result, place: str, closed_above: bool) -> None:
        """Accept root, who can do anything anyway, this user, and an owner without an account on this host.

        Such an owner appears where an image or a disk was made elsewhere. But a user can also create directories with
        such an owner, by a user namespace. So it is only accepted where nobody else may write in the directory above.
        """
        if found.st_uid in (0, os.geteuid()) or (closed_above and _has_no_account(found.st_uid)):
            return
        raise UnsafeError(
            place,
            f"it belongs to {user_name(found.st_uid)}, who can put something else in the place of what lies in it"
            f"{WOULD_RUN}; name another `{self._key}`",
        )

    def _followed(self, name: str) -> list[str]:
        """The steps of a symbolic link's target."""
        place = os.path.join(self.place, name)
        link = os.open(name, LINK, dir_fd=self.directory)
        try:
            found = os.fstat(link)
            if not stat.S_ISLNK(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
            self._judge_owner(found, place, self._passed[-1][2])
            self._links += 1
            if self._links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
            target = os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        if target.startswith("/"):
            while len(self._passed) > 1:
                self._back()
        return _steps(target)


def _steps(path: str) -> list[str]:
    """The names in a path, in reverse order."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


# ---- what a directory must be
def _judge_private(directory: int, place: str, key: str, made: bool) -> None:
    found = os.fstat(directory)
    mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if not is_ours(directory):
        raise UnsafeError(
            place,
            f"it belongs to {user_name(found.st_uid)} ({mode}), and workers would run what lies in it; "
            f"remove it, or name another `{key}`",
        )
    if found.st_mode & OTHERS_MAY_WRITE:
        raise UnsafeError(
            place,
            f"others may write in it, and workers would run that ({mode}): this file system knows no permissions; "
            f"name another `{key}`"
            if made
            else f"others may write in it, and workers would run that (owner {user_name(found.st_uid)}, {mode}); "
            f"see what lies in it, then `chmod 700 {_quoted(place)}`",
        )


def _judge_users(directory: int, walk: _Walk, key: str) -> None:
    """The walk has judged its owner already. A sticky bit is not enough here: it lets others add files."""
    found = os.fstat(directory)
    if writers := _other_writers(directory, found):
        raise UnsafeError(
            walk.place,
            f"{writers} may write in it (mode {stat.S_IMODE(found.st_mode):04o}){WOULD_RUN}; "
            f"`chmod go-w {_quoted(walk.place)}`, or name another `{key}`",
        )


def is_ours(directory: int) -> bool:
    """Whether a directory belongs to this user.

    On a network disk that gives all files the same owner, a new file shows whether the directory has that owner.
    """
    owner = os.fstat(directory).st_uid
    if owner == os.geteuid():
        return True
    name = f".{os.urandom(8).hex()}"
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except OSError:
        return False
    try:
        return os.fstat(fd).st_uid == owner
    finally:
        os.close(fd)
        os.unlink(name, dir_fd=directory)


def _other_writers(directory: int, found: os.stat_result) -> str:
    """Who but its owner may write in it, for a message; empty if nobody. With an ACL, the group bits are its mask."""
    if found.st_mode & stat.S_IWOTH:
        return "any user of this host"
    if not found.st_mode & stat.S_IWGRP:
        return ""
    if not _is_own_group(found.st_gid):
        return f"every member of the group {_group_name(found.st_gid)}"
    return "somebody whom its ACL names (see `getfacl`)" if _acl_names_a_writer(directory) else ""


def _acl_names_a_writer(directory: int) -> bool:
    """Whether its ACL (see acl(5), and the kernel's posix_acl_xattr.h) lets another user or a group write."""
    try:
        acl = os.getxattr(f"/proc/self/fd/{directory}", ACL)
    except OSError:
        return False  # it has none
    entries = struct.iter_unpack("<HHI", acl[ACL_HEAD:])
    return any(
        rights & ACL_WRITE and (kind == ACL_GROUP or (kind == ACL_USER and who not in (0, os.geteuid())))
        for kind, rights, who in entries
    )


def _is_own_group(gid: int) -> bool:
    """Whether a group is this user's private group, as many systems create for each user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _has_no_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return True
    return uid == NOBODY and _in_user_namespace()


def _in_user_namespace() -> bool:
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() != [b"0", b"0", b"4294967295"]
    except OSError:
        return False


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def user_name(uid: int) -> str:
    """The name of a user, who need not have an account here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _quoted(path: str) -> str:
    return shlex.quote(path)


def not_a_directory(error: OSError, place: str) -> OSError:
    """The error to raise for something that could not be opened as a directory."""
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return UnsafeError(place, "this is a link or a file, not the directory that was made here; remove it")
    return OSError(error.errno, error.strerror, place)
