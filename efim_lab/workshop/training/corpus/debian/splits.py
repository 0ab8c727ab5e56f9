"""Names the packages of Debian that are not trained on: they measure, or settings are fitted to them."""

from __future__ import annotations

from efim_lab.workshop.training.corpus.language import Part, Splits


def covers(listed: str, name: str) -> bool:
    """Return whether a listed name stands for a package: a part of it, or another version, has the name and more."""
    return name == listed or name.startswith(f"{listed}-")


def _splits(heldout: str, tuning: str, measured: str) -> Splits:
    apart: dict[Part, frozenset[str]] = {"heldout": frozenset(heldout.split()), "tuning": frozenset(tuning.split())}
    return Splits(apart, frozenset(measured.split()), covers)


RUST = _splits(
    "crossbeam-channel csv env-logger httparse hyper indicatif petgraph rusqlite",
    """
    criterion h2 handlebars image itertools lru mio nom notify proptest quick-xml rayon reqwest rustls semver smallvec
    syntect tempfile toml-edit ureq url uuid walkdir
    """,
    # The crates of ripgrep and serde are many: each repository is held out as a whole.
    "axum bat clap fd-find globset grep ignore ripgrep serde tokio",
)
JAVA = _splits(
    "caffeine-cache dropwizard-metrics jsoup libokhttp-java mina2 picocli",
    """
    async-http-client avro-java commons-io commons-pool2 controlsfx httpcomponents-core jackson-core jasypt jline3
    jolokia libcommons-net-java libjoda-time-java libquartz2-java mockito opencsv rabbitmq-java-client rome testng
    zxing
    """,
    "google-gson junit4 junit5 libcommons-lang3-java retrofit",
)
# C and C++ share packages.
C = _splits(
    "hiredis jansson leveldb libevent libuv1 re2 spdlog timew tmux",
    """
    bamtools brotli catch2 double-conversion fmtlib google-perftools imgui ipmitool libbsd libgit2 libsodium
    libwebsockets libyubikey lua5.4 memcached mosquitto nanoflann openh264 opus poco rapidjson wlroots yaml-cpp
    """,
    "curl jq nginx nlohmann-json3 redis snappy sqlite3 taskd",  # the last shares files with timew
)
RUBY = _splits(
    "jekyll puma ruby-devise ruby-faraday ruby-rack ruby-thor",
    """
    ruby-capybara ruby-carrierwave ruby-graphql ruby-grape ruby-i18n ruby-kramdown ruby-liquid ruby-mail
    ruby-mechanize ruby-mongo ruby-net-ssh ruby-nokogiri ruby-octokit ruby-redis ruby-rouge ruby-sequel
    ruby-webmock vagrant
    """,
    "rubocop ruby-sidekiq ruby-sinatra",
)
PHP = _splits(
    "php-guzzlehttp php-league-commonmark php-monolog php-nikic-fast-route php-twig",
    """
    php-doctrine-dbal php-embed php-illuminate-routing php-illuminate-validation php-league-flysystem php-mockery
    php-net-dns2 php-nette-utils php-parser php-phpseclib3 php-predis php-swiftmailer
    """,
    "php-slim phpunit",
)
SHELL = _splits(
    "autorevision fzf hub libpod rbenv tini",
    "cloud-init containerd docker.io edk2 etcd restic runc simdjson",
    "shunit2",
)
