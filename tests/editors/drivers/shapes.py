"""A file whose lines repeat, so that the embedded model's suggestions are predictable."""

SHAPES = '''"""Shapes and what is measured about them."""


def area(rect):
    width, height = rect.width, rect.height
    return width * height


def describe_area(rect):
    logger.info("measured %s of shape %s", area(rect), rect.name)
    counters.measured_shapes += 1
    return area(rect)


def volume(rect):
    width, height = rect.width, rect.height
    return width * height * rect.depth


def describe_volume(rect):
    logger.info("measured %s of shape %s", volume(rect), rect.name)
    counters.measured_shapes += 1
    return volume(rect)


def perimeter(rect):
    width, height = rect.width, rect.height
    return 2 * (width + height)


def diagonal(rect):
    width, height = rect.width, rect.height
    return hypot(width, height)


def ratio(rect):
    width, height = rect.width, rect.height
    return width / height


'''
HEAD = "def border(rect):\n"
BEGUN, REST = "width, hei", "ght = rect.width, rect.height"
ABROAD = 'labels["größe 😀 日本語"] = [rect.width, rect.height]\n'
# What follows is too unlikely to be shown at once; its second part is likely enough once the first is accepted.
OPEN_ENDED = """def reset(counters):
    counters.measured_shapes = 0
    counters.largest = None


def total(shapes):
    count"""
BEGINNING, NEXT_PART = "ers.measured_shapes", " += 1"
