"""The libraries that a package of Lathe carries along, their licences, and the list of its parts.

patchelf must be there. Licences come from /usr/share/doc, as Debian installs them.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

# Of every Linux system with Python (PEP 600), and what a driver brings.
OF_THE_SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|ld-linux.*|linux-vdso|libcuda|libnvidia-.*)\.so")
DOCUMENTS = pathlib.Path("/usr/share/doc")
COMPILED_IN = {"Eigen": "libeigen3-dev", "fmt": "libfmt-dev", "JSON for Modern C++": "nlohmann-json3-dev"}


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


def run(*command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return result.stdout


def moment():
    """The time that a package says it is of, in seconds since 1970: SOURCE_DATE_EPOCH, or 0, and never the present."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def needed_by(binary):
    """The libraries that a binary and those that it needs name: {soname: path}."""
    found = {}
    for line in run("ldd", binary).splitlines():
        words = line.split()
        if "not found" in line:
            fail(f"{binary} needs {words[0]}, which is not installed")
        if "=>" in words:
            found[words[0]] = pathlib.Path(words[2])
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.match(name)}


def class_of(binary):
    """Bits, byte order and machine of an ELF file, as its header has them."""
    with open(binary, "rb") as file:
        head = file.read(20)
    return head[4:6], head[18:20]


def opened_later(prefix):
    """The libraries that Lathe opens at their first use, so that no binary names them: {soname: path}. lathe.pc has them."""
    files = {path.resolve() for path in prefix.glob("lib*/**/lathe.pc")}
    if len(files) != 1:
        fail(f"{prefix} has {len(files)} lathe.pc below lib, expected 1; run cmake --install")
    sonames = re.search(r"^opened=(.*)$", files.pop().read_text(encoding="utf-8"), re.M)[1].split()
    known = {}
    for name, path in re.findall(r"^\s*(\S+) .*=> (\S+)$", run("/sbin/ldconfig", "-p"), re.M):
        if class_of(path) == class_of(prefix / "bin/lathe"):  # not those for programs of 32 bits
            known.setdefault(name, path)
    missing = sorted(name for name in sonames if name not in known)
    if missing:
        fail(f"Lathe was built with {', '.join(missing)}, which this system's loader does not find")
    return {name: pathlib.Path(known[name]) for name in sonames}


def debian_package_of(library):
    """The name of the Debian package that a library is of, or None."""
    names = {library, library.resolve(), pathlib.Path("/usr") / str(library).lstrip("/")}
    names |= {pathlib.Path("/") / path.relative_to("/usr") for path in names if path.is_relative_to("/usr")}
    for path in sorted(names):
        found = subprocess.run(["dpkg-query", "-S", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if found:
            return found.split(":")[0]
    return None


def set_search_path(binary, *folders):
    """Where a binary looks for its libraries, counted from its own folder. Its symbols for debuggers go."""
    run("patchelf", "--set-rpath", ":".join(folders), binary)
    run("strip", "--strip-unneeded", binary)


def copy_libraries(prefix, to):
    """Copies what the command in `prefix` and its shared library need to the folder `to`, where they find each other.
    → {soname: path on this machine}"""
    needed = needed_by(prefix / "bin/lathe")
    libraries = {name: path for name, path in needed.items() if not name.startswith("liblathe.")}
    libraries.update(opened_later(prefix))
    for path in list(libraries.values()):
        libraries.update({name: other for name, other in needed_by(path).items() if name not in libraries})
    to.mkdir(parents=True, exist_ok=True)
    for name, path in libraries.items():
        shutil.copy2(path.resolve(), to / name)
        set_search_path(to / name, "$ORIGIN")
    return libraries


def check(prefix):
    """→ the version of the command in `prefix`"""
    if not (prefix / "bin/lathe").is_file():
        fail(f"{prefix}/bin/lathe does not exist; run cmake --install")
    if shutil.which("patchelf") is None:
        fail("patchelf is not installed")
    return run(prefix / "bin/lathe", "--version").split()[1]


def write_licences(folder, libraries):
    """LICENSE, and NOTICE with the licence of everything else that a package carries."""
    shutil.copy2(pathlib.Path(__file__).resolve().parents[2] / "LICENSE", folder / "LICENSE")
    texts = {}
    for what, package in parts_of(libraries).items():
        path = DOCUMENTS / package / "copyright"
        if not path.is_file():
            fail(f"{what} has no licence: {path} is not there")
        texts.setdefault(path.read_text(encoding="utf-8", errors="replace"), []).append(what)
    common = sorted({name for text in texts for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text)})
    for name in common:
        path = pathlib.Path("/usr/share/common-licenses") / name
        texts.setdefault(path.read_text(encoding="utf-8"), []).append(str(path))
    notice = "".join(f"{', '.join(names)}\n{'=' * 80}\n\n{text}\n\n" for text, names in texts.items())
    (folder / "NOTICE").write_text(notice, encoding="utf-8")


def parts_of(libraries):
    """{what a package carries of others: its Debian package}"""
    parts = {}
    for name, path in sorted(libraries.items()):
        parts[name] = debian_package_of(path) or fail(f"{path} is of no Debian package, so its licence is not known")
    return {**parts, **{f"{name}, which is compiled in": package for name, package in COMPILED_IN.items()}}


def write_parts_list(path, version, libraries):
    """What a package consists of, as SPDX 2.3 in JSON: each part with its Debian package and version."""
    def part(name, number, reference=None):
        entry = {"SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}", "name": name, "versionInfo": number,
                 "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                 "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
        if reference:
            entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": reference}]
        return entry

    lathe = {**part("lathe", version), "licenseConcluded": "MIT", "licenseDeclared": "MIT"}
    others = []
    for name, package in parts_of(libraries).items():
        number = run("dpkg-query", "-W", "-f", "${Version}\\n", package).split()[0]
        others.append(part(name, number, f"pkg:deb/debian/{package}@{number}"))
    content = json.dumps(others, sort_keys=True)
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"lathe-{version}",
                "documentNamespace": f"urn:lathe:{version}:{hashlib.sha256(content.encode()).hexdigest()}",
                "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment())), "creators": ["Tool: lathe-packages"]},
                "packages": [lathe, *others],
                "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": lathe["SPDXID"]},
                                  *({"spdxElementId": lathe["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": other["SPDXID"]}
                                    for other in others)]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
