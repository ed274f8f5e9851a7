"""What MkDocs calls during a build: it adds pages of the root, and serves Mermaid locally."""

from pathlib import Path
from zipfile import ZipFile

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from sequitur.local import jars
from sequitur.local.home import ROOT

_SCRIPTS = "assets/javascripts"
_ELSEWHERE = '"https://unpkg.com/mermaid@11/dist/mermaid.min.js"'
_HERE = f'new URL("{_SCRIPTS}/mermaid.min.js",__md_scope)'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand at the root of the repository."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Put Mermaid beside the theme's script, which would load it from another host."""
    jar = jars.folder(jars.MERMAID) / next(iter(jars.MERMAID.pins()))
    scripts = Path(config.site_dir, _SCRIPTS)
    with ZipFile(jar) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/dist/mermaid.min.js"))
        (scripts / "mermaid.min.js").write_bytes(archive.read(name))
    for script in scripts.glob("bundle*.js"):
        text = script.read_text()
        assert _ELSEWHERE in text, "the theme loads Mermaid in another way: change docs_hooks.py"
        # The other one is for browsers from before 2020.
        text = text.replace(_ELSEWHERE, _HERE).replace("https://unpkg.com/", "")
        script.write_text(text)
