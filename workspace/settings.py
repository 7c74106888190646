"""Every setting, read from the environment. The defaults run a fresh clone.

The readers stand in environment.py; the README's settings table describes each
variable (tests/test_docs.py checks that). `manage.py up` turns its options into
these variables for the processes it starts.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from workspace import environment as env
from workspace.assets import static_digest
from workspace.var import broker_socket, read_key

PRODUCT_NAME = env.text("PRODUCT_NAME", "Tallyroom")
BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.text("VAR_DIR", str(BASE_DIR / "var"))).absolute()

# Safety
DEBUG = env.flag("DEBUG", default=False)
# Before `up` wrote a key, commands get one that lasts as long as they do.
SECRET_KEY = (
    env.secret("SECRET_KEY")
    or read_key(VAR_DIR / "secret_key")
    or secrets.token_urlsafe(50)
)
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
PUBLIC_URL = env.text("PUBLIC_URL").rstrip("/")
BEHIND_TLS = env.flag("BEHIND_TLS", default=PUBLIC_URL.startswith("https://"))
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE = BEHIND_TLS
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = env.whole("HSTS_SECONDS", 31_536_000) if BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = BEHIND_TLS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = env.whole("SESSION_DAYS", 30, least=1) * 86_400
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

INSTALLED_APPS = [
    "workspace",
    "agents",
    "observability",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "channels",
    "django_htmx",
]
MIDDLEWARE = [
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "workspace.middleware.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "workspace.middleware.ActionErrorMiddleware",
]
ROOT_URLCONF = "workspace.urls"
ASGI_APPLICATION = "workspace.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "workspace.middleware.product",
                "workspace.context_processors.shell",
            ],
        },
    },
]

# Database. FULL: a message that was answered "accepted" survives a power cut. `up` gives
# its worker NORMAL: what a power cut can take from it is done again, not corrupted.
SQLITE_SYNCHRONOUS = env.choice(
    "SQLITE_SYNCHRONOUS", "full", options=("full", "normal")
)
SQLITE_OPTIONS: dict[str, object] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,  # seconds
    "init_command": (
        "PRAGMA journal_mode=WAL;"
        f"PRAGMA synchronous={SQLITE_SYNCHRONOUS};"
        "PRAGMA cache_size=-16000;"  # KiB
        "PRAGMA temp_store=MEMORY;"
        "PRAGMA mmap_size=268435456;"
        "PRAGMA journal_size_limit=67108864;"
    ),
}
DATABASE_URL = env.secret("DATABASE_URL")
DATABASES: dict[str, dict[str, Any]] = {
    "default": env.database(DATABASE_URL, sqlite=SQLITE_OPTIONS)
    if DATABASE_URL
    else env.sqlite_file(str(VAR_DIR / "db.sqlite3"), SQLITE_OPTIONS)
}
ON_SQLITE = DATABASES["default"]["ENGINE"] == "workspace.sqlite"
if ON_SQLITE:
    # Threads of web and worker keep theirs: opening one costs more than a query.
    DATABASES["default"]["CONN_MAX_AGE"] = None
else:
    DATABASES["default"]["OPTIONS"] |= {
        "pool": {
            "min_size": 2,
            "max_size": env.whole("DATABASE_POOL_SIZE", 20, least=2),
            "timeout": 20,  # seconds
        },
        "connect_timeout": 5,  # seconds
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Broker, channel layer and cache: one Redis-compatible server
EMBEDDED_BROKER = not env.secret("REDIS_URL")
REDIS_URL = env.secret("REDIS_URL") or f"unix://{broker_socket(VAR_DIR)}"
if REDIS_URL.split(":", 1)[0] not in {"redis", "rediss", "unix"}:
    raise ImproperlyConfigured(
        "REDIS_URL must start with redis://, rediss:// or unix://."
    )
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "tallyroom"},
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "tallyroom",
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 5},  # seconds
    }
}

# Celery: a doorbell. A lost message delays a run until the sweeper's next round.
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 0.5,  # seconds
    "socket_timeout": 5,  # seconds; above the one second that a worker listens for
    "max_retries": 0,
}
CELERY_BROKER_CONNECTION_TIMEOUT = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_QUEUES: dict[str, Any] = {"turns": {}, "children": {}, "background": {}}
CELERY_TASK_DEFAULT_QUEUE = "turns"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = env.whole("WORKER_THREADS", 64, least=1)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TIMEZONE = "UTC"

# Runs
RUN_LEASE_SECONDS = env.number("RUN_LEASE_SECONDS", 30, least=0.5)
RUN_LEASE_RENEW_SECONDS = env.number("RUN_LEASE_RENEW_SECONDS", 10, least=0.1)
SWEEP_SECONDS = env.number("SWEEP_SECONDS", 15, least=0.1)
WORKER_SWEEP_SECONDS = env.number("WORKER_SWEEP_SECONDS", 5, least=0.1)
#: Days that the events of runs are kept; 0 keeps them for ever.
RECORD_DAYS = env.whole("RECORD_DAYS", 180)
#: What the beat does for apps above its own: name, seconds, function.
UPPER_CHORES = [
    ("roll-ups", 60, "observability.rollups.keep"),
    ("forget old records", 3600, "observability.rollups.forget_old_records"),
]
DRAIN_SECONDS = env.number("DRAIN_SECONDS", 30)
# How long an approval or a question stays open before it counts as denied.
WAIT_TIMEOUT_SECONDS = env.number("WAIT_TIMEOUT_SECONDS", 86_400, least=0.1)
# How many messages one person may post in a minute.
POSTS_PER_MINUTE = env.whole("POSTS_PER_MINUTE", 120, least=1)
# The name that a worker writes into the runs it owns; `up` gives each its own.
WORKER_NAME = env.text("WORKER_NAME")
if RUN_LEASE_RENEW_SECONDS * 2 > RUN_LEASE_SECONDS:
    raise ImproperlyConfigured(
        "RUN_LEASE_RENEW_SECONDS must be at most half of RUN_LEASE_SECONDS, or a "
        "single late renewal loses the run."
    )

# Agents
SIMULATOR = env.choice("SIMULATOR", "on", options=("on", "off")) == "on"
# Where the web process serves it; `up` passes the port that it listens on.
SIMULATOR_URL = env.text("SIMULATOR_URL", "http://127.0.0.1:8000/simulator")
SANDBOX = env.choice("SANDBOX", "auto", options=("auto", "off"))
SANDBOX_MEMORY_MB = env.whole("SANDBOX_MEMORY_MB", 2048, least=64)
SANDBOX_PROCESSES = env.whole("SANDBOX_PROCESSES", 256, least=8)
SANDBOX_FILE_MB = env.whole("SANDBOX_FILE_MB", 1024, least=1)
SANDBOX_TEMPORARY_MB = env.whole("SANDBOX_TEMPORARY_MB", 256, least=1)
SANDBOX_HOSTS = env.words("SANDBOX_HOSTS")
SANDBOX_PORTS = env.ports("SANDBOX_PORTS", "80,443")
SANDBOX_TRAFFIC_MB = env.whole("SANDBOX_TRAFFIC_MB", 1024, least=1)
WORKSPACE_QUOTA_MB = env.whole("WORKSPACE_QUOTA_MB", 5120, least=1)
FREE_SPACE_MB = env.whole("FREE_SPACE_MB", 512)
TOOL_DEFERRAL = env.choice("TOOL_DEFERRAL", "on", options=("on", "off")) == "on"
EXCLUDE_TOOLS = env.words("EXCLUDE_TOOLS")
SYSTEM_PROMPT_FILE = env.text("SYSTEM_PROMPT_FILE")
SKILLS_DIR = env.text("SKILLS_DIR")  # a folder of skills for every workspace
# JSON, or the file that SERVER_SETTINGS_FILE names; agents.config reads it.
SERVER_SETTINGS = env.secret("SERVER_SETTINGS")
FERNET_KEYS = [
    key
    for key in (
        *env.secret("FERNET_KEYS").split(","),
        read_key(VAR_DIR / "fernet.key"),
    )
    if key.strip()
]
SIGNING_KEY_FILE = env.text("SIGNING_KEY_FILE", str(VAR_DIR / "signing.key"))
PROVIDER_CONNECT_SECONDS = env.number("PROVIDER_CONNECT_SECONDS", 10, least=0.1)
PROVIDER_FIRST_BYTE_SECONDS = env.number("PROVIDER_FIRST_BYTE_SECONDS", 120, least=0.1)
PROVIDER_IDLE_SECONDS = env.number("PROVIDER_IDLE_SECONDS", 60, least=0.1)
ALLOWED_PRIVATE_HOSTS = env.words("ALLOWED_PRIVATE_HOSTS")

# Accounts
AUTH_USER_MODEL = "workspace.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
SIGN_UP = env.choice("SIGN_UP", "invited", options=("invited", "open"))
# Whose X-Forwarded-For is believed when sign-ins are counted by address.
ALLAUTH_TRUSTED_PROXY_COUNT = env.whole("TRUSTED_PROXY_COUNT", 0)
ACCOUNT_FORMS = {"login": "workspace.sign_in.SignInForm"}
ACCOUNT_ADAPTER = "workspace.accounts.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_SESSION_REMEMBER = True
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {"openid_connect": {"APPS": []}}
if OIDC_SERVER_URL := env.text("OIDC_SERVER_URL"):
    SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"].append(
        {
            "provider_id": "oidc",
            "name": env.text("OIDC_NAME", "Single sign-on"),
            "client_id": env.text("OIDC_CLIENT_ID"),
            "secret": env.secret("OIDC_CLIENT_SECRET"),
            "settings": {"server_url": OIDC_SERVER_URL},
        }
    )
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
# Addresses are not verified: a server without mail could not, and needs it most.
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = PRODUCT_NAME
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not BEHIND_TLS
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.whole("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_USER")
EMAIL_HOST_PASSWORD = env.secret("EMAIL_PASSWORD")
EMAIL_USE_TLS = env.flag("EMAIL_TLS", default=True)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "tallyroom@localhost")
if not EMAIL_HOST:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

# Language and time
USE_I18N = USE_TZ = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ko", "한국어")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["workspace.formats"]
TIME_ZONE = "UTC"

# Static files: the digest in the address makes them cacheable for ever
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = None  # nothing is collected; WhiteNoise finds the files
STATIC_URL = f"/static/{'dev' if DEBUG else static_digest(STATICFILES_DIRS)}/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 0 if DEBUG else 31_536_000

LOG_JSON = env.flag("LOG_JSON", default=False)
LOG_LEVEL = env.choice("LOG_LEVEL", "info", options=("debug", "info", "warning"))
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname:.1} {name}: {message}", "style": "{"},
        "json": {"()": "workspace.logs.JSONFormatter"},
    },
    "filters": {
        "probes": {"()": "workspace.logs.QuietProbes"},
        "redact": {"()": "workspace.redaction.RedactingFilter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "filters": ["probes", "redact"],
            "formatter": "json" if LOG_JSON else "line",
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL.upper()},
    "loggers": {
        # One line for every request and every task would hide the rest.
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "celery": {"level": "WARNING"},
        "asyncio": {"level": "WARNING"},
        "markdown_it": {"level": "WARNING"},
    },
}
SILENCED_SYSTEM_CHECKS: list[str] = []
