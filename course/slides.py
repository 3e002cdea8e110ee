#!/usr/bin/env python3
"""Slides for the chapters of the tour, made from their headings, sentences, blocks and figures; handouts on paper.

    slides.py FOLDER [CHAPTER...]           # FOLDER/02-the-tape.pdf and the like; CHAPTER is a page's name, such as 02-the-tape
    slides.py FOLDER --without=SECTION …    # without the slides of the sections with this heading; may be given several times
    slides.py FOLDER --markdown             # only the Markdown, to be changed by hand
    slides.py FOLDER/CHAPTER.md             # the PDF of Markdown that was changed by hand, beside it
    slides.py FOLDER --handout [NUMBER...]  # handouts instead, FOLDER/03-tape.pdf and the like, two pages of A4 each
    slides.py FOLDER --handout --hidden=DIR # the same with the teacher's questions, as in make.py

Slides have the first sentences of each paragraph, and no tables of sections "For reference". A section that has <!-- slide --> behind some sentences gives those and no others. (The
mark stands behind a sentence, because Markdown takes a line that begins with it for HTML.)

Needs pandoc and chromium, both packages of Debian.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import make

TOUR = pathlib.Path(__file__).resolve().parent.parent / "docs/tour"
ROOM = 434  # pixels of height below the heading of a slide
WIDTH = 840  # pixels of width in a block of code
CODE_LINE, SMALLEST_LINE, NARROWEST_LINE = 23, 15, 12  # pixels of a line of code, of a long output, and of code with long lines
LETTER = 0.8 * 0.602  # the width of a letter of code, for a line of height 1
STYLE = """<style>
@page { size: 254mm 143mm; margin: 0 }
body { max-width: none; margin: 0; padding: 0; font: 20px/1.4 "DejaVu Sans", sans-serif; color: #222; hyphens: none }
header { display: none }
section.level1 { padding: 0 } section.level1 > h1, section.level1 > p { margin-left: 12mm; margin-right: 12mm }
section.level2 { height: 142mm; box-sizing: border-box; padding: 8mm 12mm 5mm; break-before: page; overflow: hidden }
h1 { font-size: 44px; margin-top: 45mm } h2 { font-size: 28px; margin: 0 0 4mm; color: #4477aa }
p, ul { margin: 0 0 8px } li { margin: 0 0 6px } ul p { margin: 0 } h5 { font-size: 14px; font-weight: normal; font-style: normal; color: #777; margin: 0 0 2px }
pre { font-size: 18px; line-height: 23px; background: #f2f2f2; padding: 8px 12px; margin: 0 0 8px } div.sourceCode { margin: 0 !important; font-size: 18px; line-height: 23px } div.sourceCode pre { font-size: inherit; line-height: inherit; margin: 0 0 8px !important } code { font-size: 0.85em; background: none } pre code { font-size: 1em }
img { max-width: 220mm; max-height: 98mm } figcaption { display: none } table { font-size: 15px; width: auto; margin: 0 0 8px } col { width: auto !important } td, th { padding: 3px 14px 3px 0; text-align: left; vertical-align: top }
</style>
"""
PAPER = """<style>
@page { size: A4; margin: 13mm 15mm }
body { max-width: none; margin: 0; padding: 0; font: 9.6pt/1.36 "DejaVu Sans", sans-serif; color: #222; hyphens: none }
header { display: none }
h1 { font-size: 16pt; margin: 0 0 2mm } h2 { font-size: 11.5pt; margin: 3.5mm 0 1mm; break-after: avoid } h2 + p { break-after: avoid }
p, ul, ol { margin: 0 0 1.4mm } ul, ol { padding-left: 5mm } li { margin: 0 0 0.5mm } li p { margin: 0 }
code { font-size: 0.9em } pre { margin: 0 0 1.4mm; padding: 1.5mm; background: #f2f2f2 }
table { font-size: 8.8pt; width: auto; margin: 0 0 1.4mm; border-collapse: collapse; break-inside: avoid }
col { width: auto !important } th { text-align: left } td, th { padding: 0.4mm 4mm 0.4mm 0; vertical-align: top }
</style>
"""
BLOCK = re.compile(r"(^```.*?^```$|^!\[.*?\]\(.*?\)$|(?:^\|[^\n]*\n)+|(?:^ {4}[^\n]*\n)+)", re.S | re.M)
TABLE = re.compile(r"(?:^\|[^\n]*\n)+", re.M)
MARK = "<!-- slide -->"
SENTENCE = re.compile(r"(?:`[^`]*`|\((?:`[^`]*`|[^`)])*\)|[^`(])*?[.!?](?:" + MARK + r"|(?= |$))|.+")


def without_links(text):
    return re.sub(r"\[([^\]]+)\]\((?![^)]*\.svg\))[^)]+\)", r"\1", text)


def sentences_of(text, characters):
    """The marked sentences of a paragraph, without their marks. If none is marked, the first one, and those after it that end within so
    many characters."""
    found = [match[0].strip() for match in SENTENCE.finditer(" ".join(without_links(text).split()))]
    if marked := [one.removesuffix(MARK) for one in found if one.endswith(MARK)]:
        return marked
    count = max([1] + [n for n in range(1, len(found) + 1) if len(" ".join(found[:n])) <= characters])
    return found[:count]


def rows_of(lines, line_height):
    """How many rows lines of code take. Letters are 0.8 of a line high, and 0.602 of that wide."""
    characters = int(WIDTH / (LETTER * line_height))
    return sum(max(1, -(-len(line) // characters)) for line in lines)


def height_of(piece):
    """About how many pixels a piece needs. 72 characters of text fit in a line, 105 of a table's row."""
    lines = piece.splitlines()
    if figure := re.match(r"!\[.*\]\((.*)\)", piece):
        size = re.match(r'<svg [^>]*?width="(\d+)"[^>]*? height="(\d+)"', (TOUR / figure[1]).read_text(encoding="utf-8"))
        return min(8 + int(size[2]), ROOM) if size and int(size[1]) <= 830 else ROOM
    if piece.startswith("|"):
        rows = [line.strip("|").split("|") for line in lines]
        return 8 + sum(8 + 21 * max(-(-len(cell.strip()) * len(row) // 105) for cell in row) for row in rows)
    if piece.startswith(("```", "    ")):
        smaller = re.search(r"line-height:(\d+)px", lines[0])
        line_height = int(smaller[1]) if smaller else CODE_LINE
        return 24 + line_height * rows_of([line for line in lines if not line.startswith("```")], line_height)
    return sum(20 if line.startswith("#####") else 8 + 28 * -(-len(line) // 72) for line in lines)


def parts_of(block):
    """The block in parts of about one length that fit on a slide each: of a table each with the head, of code each a block. A long output
    has smaller letters, and so have code and formulae with long lines: no line is broken."""
    lines = block.rstrip().splitlines()
    if block.startswith("    "):
        lines = ["```text", *textwrap.dedent(block.rstrip()).splitlines(), "```"]
    fence = lines[0] if lines[0].startswith("```") else ""
    head, body, foot = (lines[:1], lines[1:-1], ["```"]) if fence else (lines[:2], lines[2:], []) if lines[0].startswith("|") else ([], lines, [])
    largest = max(NARROWEST_LINE, min(CODE_LINE, int(WIDTH / (LETTER * max(map(len, body), default=1))))) if fence else CODE_LINE
    smallest = min(largest, SMALLEST_LINE if fence == "```text" else CODE_LINE)
    for count in range(1, len(body) + 1):
        size = -(-len(body) // count)
        for line_height in range(largest, smallest - 1, -1):
            style = f'```{{.{fence[3:] or "text"} style="font-size:{0.8 * line_height:.1f}px;line-height:{line_height}px"}}'
            parts = ["\n".join((head if line_height == CODE_LINE else [style]) + body[at : at + size] + foot) for at in range(0, len(body), size)]
            if max(height_of(part) for part in parts) <= ROOM - 20:
                return parts
    return parts


def paragraphs_of(text):
    """Its paragraphs, and the items of its lists."""
    found = [re.sub(r"^(- |\d\. )", "", one.strip()) for one in re.split(r"\n\s*\n|^(?=- |\d\. )", text, flags=re.M)]
    return [one for one in found if one and not one.startswith("<!--")]


def pieces_of(body, sentences, whole=False):
    """What stands in a section, in its order: a bullet for each paragraph, and the blocks, each below the name of its file. A section of
    few paragraphs says more of each. `sentences` gets those of each bullet's paragraph."""
    name, few = "", len(paragraphs_of(BLOCK.sub("\n\n", body))) <= 4
    for text in BLOCK.split(body):
        if BLOCK.fullmatch(text):
            text = without_links(text) if text.startswith("|") else text  # code keeps its lambdas
            text = re.sub(r"^" + min(re.findall(r"^( *)[^` …\n]", text, re.M) or [""], key=len), "", text, flags=re.M) if text.startswith("```") else text
            for part in [text] if text.startswith("![") else parts_of(text):
                yield f"##### {name}\n\n{part}" if name else part
            name = ""
            continue
        for paragraph in paragraphs_of(text):
            if file := re.match(r"From \[(.*?)\]", paragraph):
                name = file[1]
            elif MARK in paragraph or MARK not in body:
                paragraph = re.sub(r"\*Needs\*.*", "", paragraph, flags=re.S)
                bullet = "- " + " ".join(sentences_of(paragraph, 1000 if whole else 250 if few else 110))
                sentences[bullet] = sentences_of(paragraph, 1000)
                yield bullet


def slides_in(pieces, sentences):
    """The pieces in lists, one for each slide. A bullet that would be alone on one gets company from the slide before, or becomes a
    bullet for each of the paragraph's sentences, which `sentences` has. A paragraph of one sentence then has no bullet."""
    def height(slide):
        return sum(height_of(part) for piece in slide for part in (piece.split("\n\n", 1) if piece.startswith("#####") else [piece]))

    slides = []
    for piece in pieces:
        if slides and height(slides[-1] + [piece]) <= ROOM:
            slides[-1].append(piece)
        else:
            slides.append([piece])
    for before, slide in zip([[], *slides], slides):
        if len(slide) > 1 or not slide[0].startswith("- "):
            continue
        if len(before) > 2 and before[-1].startswith("- "):
            slide.insert(0, before.pop())
        else:
            said = sentences[slide[0]]
            slide[:] = said if len(said) == 1 else [f"- {one}" for one in said]
    return slides


def slides_of(page, without=()):
    """The slides of a chapter as Markdown, but for those of the sections whose headings are in `without`."""
    page = re.sub(r"\nNext: [^\n]*\n\Z|\n *<pre>.*?</pre>", "", page, flags=re.S)  # the link to the next page, and the code of answers
    head, *sections = re.split(r"^## ", page, flags=re.M)
    title, _, intro = head.partition("\n")
    printed = [block for block in BLOCK.findall(intro) if block.startswith("```text")]
    first = re.sub(r"[^.]*\[\w+\.cpp\]\(.*", "", BLOCK.split(intro)[0], flags=re.S)  # without the sentence that names the program
    out = [f"{title}\n\n{' '.join(sentences_of(first, 230))}\n"]
    sections = [f"What the program prints\n{''.join(printed)}\n"] * bool(printed) + sections
    for section in sections:
        heading, _, body = section.partition("\n")
        if heading in without:
            continue
        if heading.startswith("For reference"):
            body = TABLE.sub(lambda _: "\nThe chapter has the table." + MARK * (MARK in body) + "\n", body)
        sentences = {}
        for slide in slides_in(pieces_of(body, sentences, heading == "Exercises"), sentences):
            out.append(f"## {heading}\n")
            out += [f"{piece}\n" if piece.startswith("- ") else f"<!-- -->\n\n{piece}\n" for piece in slide]  # the comment ends a list
    return "\n".join(out)


def write_pdf(markdown, target, looks=STYLE):
    with tempfile.TemporaryDirectory() as folder:
        page, style = pathlib.Path(folder) / "slides.html", pathlib.Path(folder) / "style.html"
        style.write_text(looks, encoding="utf-8")
        subprocess.run(["pandoc", "--from=markdown-implicit_figures-tex_math_dollars", "--to=html5", "--standalone", "--self-contained", "--section-divs", "--metadata=pagetitle:" + target.stem,
                        f"--include-in-header={style}", f"--resource-path={TOUR}", f"--output={page}", markdown], check=True)
        chromium = ["chromium", "--headless", "--disable-gpu", "--no-pdf-header-footer", "--print-to-pdf-no-header", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        subprocess.run([*chromium, f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)


def write_handouts(folder, numbers, hidden=None):
    """FOLDER/NN-topic.pdf of each assignment in `numbers`, of all if there are none."""
    for one in make.assignments(hidden):
        if numbers and str(one.number) not in numbers:
            continue
        target = folder / f"{one.folder.name}.pdf"
        with tempfile.TemporaryDirectory() as work:
            markdown = pathlib.Path(work) / "handout.md"
            markdown.write_text(re.sub(r"(\d) to (\d)", "\\1\u00a0to\u00a0\\2", make.handout_of(one)), encoding="utf-8")  # lines stay on one
            write_pdf(markdown, target, PAPER)
        print(target)


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not words:
        sys.exit("slides.py FOLDER [CHAPTER...] [--without=SECTION...] [--markdown]\nslides.py FOLDER/CHAPTER.md\nslides.py FOLDER --handout [NUMBER...]")
    folder = pathlib.Path(words[0]).resolve()
    if folder.suffix == ".md":
        if not folder.is_file():
            sys.exit(f"slides.py: {folder} is not there")
        write_pdf(folder, folder.with_suffix(".pdf"))
        print(folder.with_suffix(".pdf"))
        return
    folder.mkdir(parents=True, exist_ok=True)
    if "--handout" in sys.argv:
        hidden = [pathlib.Path(word.removeprefix("--hidden=")) for word in sys.argv if word.startswith("--hidden=")]
        write_handouts(folder, words[1:], *hidden)
        return
    pages = [page for page in sorted(TOUR.glob("*.md")) if page.name != "README.md" and (not words[1:] or page.stem in words[1:])]
    without = [word.removeprefix("--without=") for word in sys.argv if word.startswith("--without=")]
    for heading in without:
        if not any(f"\n## {heading}\n" in page.read_text(encoding="utf-8") for page in pages):
            sys.exit(f"slides.py: no section of these chapters is called: {heading}")
    for page in pages:
        markdown = folder / f"{page.stem}.md"
        markdown.write_text(slides_of(page.read_text(encoding="utf-8"), without), encoding="utf-8")
        if "--markdown" not in sys.argv:
            write_pdf(markdown, folder / f"{page.stem}.pdf")
        print(markdown if "--markdown" in sys.argv else folder / f"{page.stem}.pdf")


if __name__ == "__main__":
    main()
