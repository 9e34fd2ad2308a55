"""Commands that start another one in a container, a pod or a cluster."""

from __future__ import annotations

import re
from typing import Final

from knobledger.knobs.shell.unwrapped import Unwrapped, hand_on, hand_on_list, past_options, text_of
from knobledger.knobs.shell.values import prefix_text

_DOCKER_ALONE = re.compile(
    r"-[ditPq]+|--(?:rm|detach|tty|interactive|privileged|init|publish-all|read-only|no-healthcheck|quiet|"
    r"oom-kill-disable|sig-proxy|disable-content-trust|no-hosts|replace|tls-verify|http-proxy)"
)
_IMAGE_OPTIONS: Final = (
    "-B --bind -H --home -W --workdir -S --scratch --pwd --overlay --app --network --network-args --dns --hostname "
    "--security --add-caps --drop-caps --mount --fusemount --cpus --cpu-shares --cpuset-cpus --memory --pids-limit"
)
"""Options of apptainer's that take the next word."""
CONTAINERS: Final = frozenset(["docker", "podman", "nerdctl"])
_IMAGES: Final = frozenset(["apptainer", "singularity"])
_PODS: Final = {"kubectl": ("exec",), "oc": ("exec",), "ray": ("job", "submit")}
ELSEWHERE: Final = CONTAINERS | _IMAGES | _PODS.keys()


def elsewhere(result: Unwrapped, name: str) -> bool:
    """Take off `docker run`, `apptainer exec`, `kubectl exec`, `ray job submit`; False if it is another command of these."""
    if name in CONTAINERS:
        return _container(result, name)
    return _image(result, name) if name in _IMAGES else _pod(result, name, _PODS[name])


def _pod(result: Unwrapped, name: str, verbs: tuple[str, ...]) -> bool:
    """`kubectl [options] exec pod [options] -- command`: nothing of the environment goes there."""
    texts = [text_of(arg) for arg in result.args]
    if "--" not in texts:
        return False
    end = texts.index("--")
    if not all(verb in texts[1:end] for verb in verbs):
        return False
    result.wrappers.append(name)
    result.forget()
    result.args = result.args[end + 1 :]
    return True


def _image(result: Unwrapped, name: str) -> bool:
    """`apptainer exec [options] image command`: it hands its environment on, but for `--cleanenv`."""
    args = result.args
    at = past_options(args, 1, "")
    if at >= len(args) or text_of(args[at]) not in ("exec", "run"):
        return False
    at += 1
    result.wrappers.append(name)
    while at < len(args):
        arg = args[at]
        text = prefix_text(arg.word) if arg.word is not None else ""
        if not text.startswith("-"):
            break
        if text in ("-e", "--cleanenv", "-C", "--containall"):
            result.forget()
        if text == "--env" and at + 1 < len(args):
            hand_on_list(result, args[at + 1], 0, arg, "--env")
            at += 2
        elif text.startswith("--env="):
            hand_on_list(result, arg, len("--env="), arg, "--env=")
            at += 1
        elif text == "--env-file" and at + 1 < len(args):
            result.env_files.append(text_of(args[at + 1]) or "")
            at += 2
        else:
            at += 2 if text in _IMAGE_OPTIONS.split() else 1
    result.args = args[at + 1 :]
    return True


def _container(result: Unwrapped, name: str) -> bool:
    """`docker run [options] image command`; False if it is another docker command."""
    args = result.args
    at = past_options(args, 1, "")
    verb = text_of(args[at]) if at < len(args) else None
    if verb == "container":
        at += 1
        verb = text_of(args[at]) if at < len(args) else None
    if verb not in ("run", "exec", "create"):
        return False
    at += 1
    result.wrappers.append(name)
    result.forget()
    while at < len(args):
        arg = args[at]
        if arg.word is None:
            at += 1
            continue
        text = prefix_text(arg.word)
        if not text.startswith("-"):
            break
        if text in ("-e", "--env") and at + 1 < len(args):
            hand_on(result, args[at + 1], 0, arg, "-e")
            at += 2
        elif text.startswith("--env="):
            hand_on(result, arg, len("--env="), arg, "--env=")
            at += 1
        elif text.startswith("-e") and not text.startswith("--"):
            hand_on(result, arg, 3 if text.startswith("-e=") else 2, arg, "-e")
            at += 1
        elif text == "--env-file" and at + 1 < len(args):
            result.env_files.append(text_of(args[at + 1]) or "")
            at += 2
        elif text.startswith("--env-file="):
            result.env_files.append((text_of(arg) or "").partition("=")[2])
            at += 1
        elif _DOCKER_ALONE.fullmatch(text) or "=" in text:
            at += 1
        elif not text.startswith("--") and len(text) > 2:
            # -p8000:80, or letters of which the last takes a value (-itv).
            at += 2 if re.fullmatch(r"-[ditPq]+[a-zA-Z]", text) else 1
        else:
            at += 2
    result.image = args[at] if at < len(args) else None
    result.args = args[at + 1 :]
    return True
