"""Names the modules of Go that are not trained on: they measure, or settings are fitted to them."""

from efim_lab.workshop.training.corpus.language import Splits


def covers(listed: str, path: str) -> bool:
    """Return whether a listed module holds a package: its import path begins with the module's."""
    return path == listed or path.startswith((f"{listed}/", f"{listed}.v"))


SPLITS = Splits(
    apart={
        "heldout": frozenset(
            {
                "github.com/gin-gonic/gin",
                "github.com/go-chi/chi",
                "github.com/sirupsen/logrus",
                "github.com/spf13/cobra",
                "github.com/stretchr/testify",
                "go.uber.org/zap",
            }
        ),
        "tuning": frozenset(
            """
            github.com/alecthomas/chroma github.com/coreos/go-systemd github.com/disintegration/imaging
            github.com/emersion/go-imap github.com/fsnotify/fsnotify github.com/gdamore/tcell
            github.com/go-redis/redis github.com/go-sql-driver/mysql github.com/gofiber/fiber
            github.com/google/go-cmp github.com/gorilla/websocket github.com/jmoiron/sqlx
            github.com/mattn/go-sqlite3 github.com/miekg/dns github.com/nsqio/go-nsq
            github.com/olekukonko/tablewriter github.com/pelletier/go-toml github.com/pkg/sftp
            github.com/rs/zerolog github.com/tdewolff/minify github.com/vmihailenco/msgpack
            github.com/yuin/goldmark go.etcd.io/bbolt
            """.split()  # noqa: SIM905 - shorter than a list
        ),
    },
    measured=frozenset(
        {
            "github.com/gofrs/uuid",
            "github.com/gorilla/mux",
            "github.com/hashicorp/raft",
            "github.com/labstack/echo",
            "github.com/nats-io/nats.go",
            "github.com/prometheus/client_golang",
            "github.com/spf13/viper",
            "github.com/urfave/cli",
        }
    ),
    covers=covers,
)
