from hypothesis import settings

settings.register_profile("busy machine", deadline=None)  # no test asserts a time
settings.load_profile("busy machine")
