"""A picture as SVG, with presentation attributes and no style sheet, so that every renderer shows it."""
INK, PALE, LINE = "#222222", "#f2f2f2", "#888888"
BLUE, ORANGE, GREEN, RED, GREY = "#4477aa", "#e69f00", "#228833", "#bb3344", "#bbbbbb"
LIGHT = {BLUE: "#d6e2ee", ORANGE: "#fbe7bd", GREEN: "#d2e9d6", RED: "#f3d3d8", GREY: "#eeeeee"}


class Figure:
    def __init__(self, title, width, height):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                     f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">')
        self.parts = [f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def box(self, x, y, width, height, fill=PALE, stroke=LINE, stroke_width=1):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{stroke}" stroke-width="{stroke_width}"/>')

    def text(self, x, y, text, anchor="start", fill=INK, bold=False, size=13):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{weight}>{text}</text>')

    def lines(self, x, y, texts, step=15, size=11):
        """Lines of small text, one below the other."""
        for i, text in enumerate(texts):
            self.text(x, y + step * i, text, size=size)

    def line(self, x1, y1, x2, y2, stroke=INK, dash=None, width=1.2):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}" stroke-width="{width}"{dashes}/>')

    def ellipse(self, x, y, radius_x, radius_y, stroke=LINE):
        self.parts.append(f'<ellipse cx="{x}" cy="{y}" rx="{radius_x:.1f}" ry="{radius_y:.1f}" fill="none" stroke="{stroke}" stroke-width="1"/>')

    def arrow(self, x1, y1, x2, y2, stroke=INK, dash=None):
        """With a head, on a straight line; heads are polygons, because not every renderer draws markers."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        self.line(x1, y1, round(x2 - 6 * ux, 1), round(y2 - 6 * uy, 1), stroke, dash)
        points = [(x2, y2), (x2 - 8 * ux - 4 * uy, y2 - 8 * uy + 4 * ux), (x2 - 8 * ux + 4 * uy, y2 - 8 * uy - 4 * ux)]
        self.parts.append(f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{stroke}"/>')

    def cell(self, x, y, width, height, text, fill=PALE, stroke=LINE, stroke_width=1, size=13, bold=False):
        """A box with a text in its middle."""
        self.box(x, y, width, height, fill, stroke, stroke_width)
        self.text(f"{x + width / 2:g}", f"{y + height / 2 + 5:g}", text, "middle", size=size, bold=bold)

    def bar(self, x, y, width, label, color, height=26):
        """A piece of work on a timeline."""
        self.box(x, y, width, height, LIGHT[color], color)
        self.text(x + width / 2, y + height / 2 + 4.5, label, "middle", size=12)

    def timeline(self, names, y, step, left, right):
        """Rows of a timeline: a name and a grey line each, on which bars are put."""
        for i, name in enumerate(names):
            self.text(20, y + step * i + 18, name)
            self.line(left, y + step * i + 13, right, y + step * i + 13, GREY)

    def svg(self):
        return self.head + "\n" + "\n".join(self.parts) + "\n</svg>\n"
