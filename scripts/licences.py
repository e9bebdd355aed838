"""Prints the licence texts of all crates in the programs of some packages, each text once.

usage: licences.py TARGET PACKAGE...
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")

target, *packages = sys.argv[1:]
command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
crates = {crate["id"]: crate for crate in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
waiting = [crate for crate in metadata["workspace_members"] if crates[crate]["name"] in packages]
used = set()
while waiting:
    crate = waiting.pop()
    if crate in used:
        continue
    used.add(crate)
    # Build and development dependencies are in no program.
    waiting += [dep["pkg"] for dep in nodes[crate]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]

texts = {}
without = []
others = [crates[crate] for crate in used if crates[crate]["source"]]
for crate in sorted(others, key=lambda crate: (crate["name"], crate["version"])):
    title = f"{crate['name']} {crate['version']} ({crate['license']}) {crate['repository'] or ''}".rstrip()
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(NAMES) and path.is_file())
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        # Copies differ in their lines' ends and lengths.
        texts.setdefault(" ".join(text.split()), (text, []))[1].append(title)
    if not files:
        without.append(title)

print("The programs contain the crates below, and the standard library of Rust (MIT OR Apache-2.0,")
print("https://github.com/rust-lang/rust). A crate with several licences can be used under any one of them.")
if without:
    print("\nThese have no licence text of their own:\n")
    print("\n".join(without))
for text, titles in sorted(texts.values(), key=lambda item: item[1]):
    print("\n" + "=" * 100)
    print("\n".join(titles))
    print("=" * 100 + "\n")
    print("\n".join(line.rstrip() for line in text.splitlines()))
