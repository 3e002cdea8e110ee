#!/usr/bin/env python3
"""Slides for the chapters of the tour, made from their headings, first sentences, blocks and figures.

    slides.py FOLDER [CHAPTER...]    # FOLDER/03-the-tape.pdf and the like; CHAPTER is a page's name, such as 03-the-tape
    slides.py FOLDER --markdown      # only the Markdown, to be changed by hand

Needs pandoc and chromium, both packages of Debian.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOUR = pathlib.Path(__file__).resolve().parent.parent / "docs/tour"
BULLETS, LINES, CHARACTERS = 5, 16, 900  # that fit on a slide; a larger block is left out
STYLE = """<style>
@page { size: 254mm 143mm; margin: 0 }
body { max-width: none; margin: 0; padding: 0; font: 22px/1.4 "DejaVu Sans", sans-serif; color: #222; hyphens: none }
header { display: none }
section.level1 { padding: 0 } section.level1 > h1, section.level1 > p { margin-left: 16mm; margin-right: 16mm }
section.level2 { height: 142mm; box-sizing: border-box; padding: 12mm 16mm 8mm; break-before: page; overflow: hidden }
h1 { font-size: 44px; margin-top: 45mm } h2 { font-size: 30px; margin: 0 0 6mm; color: #4477aa }
li { margin-bottom: 2.5mm } pre { font-size: 15px; line-height: 1.3; background: #f2f2f2; padding: 4mm } code { font-size: 0.85em; background: none } pre code { font-size: 1em }
img { max-width: 220mm; max-height: 100mm } figcaption { display: none } table { font-size: 16px } td, th { padding: 1.5mm 3mm; text-align: left; vertical-align: top }
</style>
"""
BLOCK = re.compile(r"(^```.*?^```$|^!\[.*?\]\(.*?\)$|(?:^\|[^\n]*\n)+|(?:^ {4}[^\n]*\n)+)", re.S | re.M)


def first_sentence(text):
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(text.split()))
    return re.match(r"(?:`[^`]*`|[^`])*?[.!?](?= |$)|.*", text)[0]


def bullets_of(text):
    """The first sentence of each paragraph, and of each item of a list."""
    for paragraph in re.split(r"\n\s*\n|^(?=- |\d\. )", text, flags=re.M):
        paragraph = re.sub(r"^(- |\d\. )", "", paragraph.strip())
        if paragraph and not re.match(r"From \[|<!--", paragraph):
            yield first_sentence(paragraph)


def slides_of(page):
    """The slides of a chapter as Markdown."""
    head, *sections = re.split(r"^## ", page, flags=re.M)
    title, _, intro = head.partition("\n")
    out = [f"{title}\n\n{first_sentence(next(bullets_of(BLOCK.sub('', intro)), ''))}\n"]
    for section in sections:
        heading, _, body = section.partition("\n")
        bullets = list(bullets_of(BLOCK.sub("\n\n", body))) if heading != "Exercises" else list(bullets_of(re.sub(r"^  \*Needs\*.*?(?=^- |\Z)", "", body, flags=re.S | re.M)))
        for at in range(0, len(bullets), BULLETS):
            out.append(f"## {heading}\n\n" + "".join(f"- {bullet}\n" for bullet in bullets[at : at + BULLETS]))
        for block in BLOCK.findall(body):
            block = re.sub(r"\[([^\]]+)\]\((?![^)]*\.svg\))[^)]+\)", r"\1", block)
            lines = len(block.splitlines())
            if lines > LINES or len(block) > CHARACTERS:
                continue
            if lines <= LINES // 2 and not block.startswith("![") and out[-1].startswith(f"## {heading}\n") and "<!--" not in out[-1] and 0 < out[-1].count("\n- ") <= BULLETS // 2:
                out[-1] += f"\n<!-- -->\n\n{block.rstrip()}\n"  # the comment ends the list
            else:
                out.append(f"## {heading}\n\n{block.rstrip()}\n")
    return "\n".join(out)


def write_pdf(markdown, target):
    with tempfile.TemporaryDirectory() as folder:
        page, style = pathlib.Path(folder) / "slides.html", pathlib.Path(folder) / "style.html"
        style.write_text(STYLE, encoding="utf-8")
        subprocess.run(["pandoc", "--from=markdown-implicit_figures-tex_math_dollars", "--to=html5", "--standalone", "--self-contained", "--section-divs", "--metadata=pagetitle:" + target.stem,
                        f"--include-in-header={style}", f"--resource-path={TOUR}", f"--output={page}", markdown], check=True)
        chromium = ["chromium", "--headless", "--disable-gpu", "--no-pdf-header-footer", "--print-to-pdf-no-header", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        subprocess.run([*chromium, f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)


def main():
    words = [word for word in sys.argv[1:] if word != "--markdown"]
    if not words:
        sys.exit("slides.py FOLDER [CHAPTER...] [--markdown]")
    folder = pathlib.Path(words[0]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(TOUR.glob("*.md")):
        if page.name == "README.md" or words[1:] and page.stem not in words[1:]:
            continue
        markdown = folder / f"{page.stem}.md"
        markdown.write_text(slides_of(page.read_text(encoding="utf-8")), encoding="utf-8")
        if "--markdown" not in sys.argv:
            write_pdf(markdown, folder / f"{page.stem}.pdf")
        print(markdown if "--markdown" in sys.argv else folder / f"{page.stem}.pdf")


if __name__ == "__main__":
    main()
