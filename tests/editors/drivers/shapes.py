"""A file whose lines repeat, so that the embedded model's suggestions are predictable."""

SHAPES = '''"""Shapes and what is measured about them."""


def area(shape):
    width, height = shape.width, shape.height
    return width * height


def describe_area(shape):
    logger.info("measured %s of shape %s", area(shape), shape.name)
    counters.measured_shapes += 1
    return area(shape)


def volume(shape):
    width, height = shape.width, shape.height
    return width * height * shape.depth


def describe_volume(shape):
    logger.info("measured %s of shape %s", volume(shape), shape.name)
    counters.measured_shapes += 1
    return volume(shape)


def perimeter(shape):
    width, height = shape.width, shape.height
    return 2 * (width + height)


def diagonal(shape):
    width, height = shape.width, shape.height
    return hypot(width, height)


def ratio(shape):
    width, height = shape.width, shape.height
    return width / height


'''
HEAD = "def border(shape):\n"
BEGUN, REST = "width, hei", "ght = shape.width, shape.height"
ABROAD = 'labels["größe 😀 日本語"] = [shape.width, shape.height]\n'
# What follows is too unlikely to be shown at once; its second part is likely enough once the first is accepted.
OPEN_ENDED = """def reset(counters):
    counters.measured_shapes = 0
    counters.largest = None


def total(shapes):
    count"""
BEGINNING, NEXT_PART = "ers.measured_shapes", " += 1"
