#!/usr/bin/env python3
"""The sample settings start the programs, --help fits a terminal, the manuals' links lead somewhere."""
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.environ["GABLE_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e", "cluster"))
from cluster import BUILD, Cluster, Process  # noqa: E402

SAMPLES = os.path.join(SOURCE, "deploy", "samples")
SETTING = re.compile(r"^(# )?([a-z][a-z-]*) = (.*)$", re.MULTILINE)


def sample(name):
    with open(os.path.join(SAMPLES, name)) as f:
        return f.read()


def commented_in(cluster, name):
    """The sample with every setting that it shows as a comment switched on; its path."""
    path = os.path.join(cluster.folder, name)
    with open(path, "w") as f:
        f.write(SETTING.sub(r"\2 = \3", sample(name)))
    return path


def help_text(*command):
    done = subprocess.run([f"{BUILD}/bin/{command[0]}", *command[1:], "--help"], text=True,
                          capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith("Usage: "), (command, done)
    return done.stdout


def samples_start_the_programs():
    cluster = Cluster()
    try:
        authority = os.path.join(cluster.folder, "ca")
        tls = {role: os.path.join(cluster.folder, role) for role in ("server", "proxy")}
        done = cluster.gable("ca", "init", "--dir", authority)
        assert done.returncode == 0 and f"--dir {authority}" in done.stdout, done
        for role, folder in tls.items():
            done = cluster.gable("ca", "issue", role, "--role", role, "--dir", authority,
                                 "--out", folder)
            assert done.returncode == 0, done
        server = Process(cluster, "ps-server", [
            f"{BUILD}/bin/ps-server", "--config", commented_in(cluster, "ps-server.conf"),
            "--listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0", "--tls-dir", tls["server"],
            "--state-dir", os.path.join(cluster.folder, "state")])
        fields = server.ready()
        # Only the file says so.
        assert fields["data"] == "srv.example.org:7073", fields
        proxy = Process(cluster, "gpu-proxy", [
            f"{BUILD}/bin/gpu-proxy", "--config", commented_in(cluster, "gpu-proxy.conf"),
            "--server", fields["grpc"], "--listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0",
            "--tls-dir", tls["proxy"], "--driver", "null"])
        assert proxy.ready()["data"] == "gpu1.example.org:7072", proxy.out()
        assert proxy.stop() == 0 and server.stop() == 0
    finally:
        cluster.close()


def a_bad_key_is_named_with_its_line():
    cluster = Cluster()
    try:
        for program in ("ps-server", "gpu-proxy"):
            path = os.path.join(cluster.folder, "bad.conf")
            with open(path, "w") as f:
                f.write("# a comment\nlissen = 127.0.0.1:0\n")
            done = subprocess.run([f"{BUILD}/bin/{program}", "--config", path], text=True,
                                  capture_output=True, env=cluster.env)
            assert done.returncode == 2, done
            assert f"{path}:2: unknown key 'lissen'" in done.stderr, done.stderr
    finally:
        cluster.close()


def samples_show_the_defaults():
    """A setting shown as a comment has the value that --help shows."""
    for program in ("ps-server", "gpu-proxy"):
        text = " ".join(help_text(program).split())
        for comment, key, value in SETTING.findall(sample(program + ".conf")):
            if comment and key not in ("data-listen", "advertise", "name"):
                entry = re.search(rf" --{key} (.*?)(?= --[a-z]|$)", text).group(1)
                assert f"[{value}]" in entry, f"{program}.conf: {key} = {value}, but {entry}"


def help_fits_a_terminal():
    commands = [("ps-server",), ("gpu-proxy",), ("gpu-session",), ("worker",), ("gable",)]
    commands += [("gable", c) for c in ("status", "devices", "sessions", "params", "jobs", "run")]
    commands += [("gable", "ca", "init"), ("gable", "ca", "issue")]
    for command in commands:
        for line in help_text(*command).splitlines():
            assert len(line) <= 100, f"{command}: {line}"


def the_guides_model_is_one():
    """The worker takes it, and goes on to look for the data, which are not there."""
    with open(f"{SOURCE}/docs/user-guide.md") as f:
        model = re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "small.json")
        for text, complaint in ((model, "train-images-idx3-ubyte[.gz]: no such file"),
                                (model.replace("filters", "channels"), "unknown key 'channels': "
                                 "known are type, filters, kernel and pad")):
            with open(path, "w") as f:
                f.write(text)
            done = subprocess.run([f"{BUILD}/bin/worker", "--driver", "cpu", "--model", path,
                                   "--data", folder], text=True, capture_output=True)
            assert done.returncode and complaint in done.stderr, done


def links_lead_somewhere():
    pages = ["README.md"] + [f"docs/{name}" for name in sorted(os.listdir(f"{SOURCE}/docs"))
                             if name.endswith(".md")]
    for page in pages:
        with open(os.path.join(SOURCE, page)) as f:
            links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", f.read())
        for link in links:
            if "://" not in link:
                target = os.path.join(SOURCE, os.path.dirname(page), link)
                assert os.path.exists(target), f"{page} links to {link}"


def main():
    for test in (samples_start_the_programs, a_bad_key_is_named_with_its_line,
                 samples_show_the_defaults, help_fits_a_terminal, the_guides_model_is_one, links_lead_somewhere):
        test()
        print("ok", test.__name__)


if __name__ == "__main__":
    main()
