"""What each kind of secret looks like.

The rule that must not break: every pattern is linear in bounded text (no nested or adjoining open-ended
repeats), a group named `secret` says which part goes, and no pattern matches the mark that `redaction` leaves.

The last repeat of a pattern is open-ended on purpose: a longer secret than usual must not survive in part.
Where a secret has no sure shape of its own (`password = ...`), too much is taken rather than too little.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lorebus_domain.secret_checks import iban_length, is_basic_login, is_card_number


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """One shape of one kind.

    `hint`, in lower case, is in every text that has the shape: most texts are told by it alone. `length` says
    how much of a candidate is a secret, from its start (None: it is none).
    """

    kind: str
    pattern: re.Pattern[str]
    hint: str = ""
    length: Callable[[str], int | None] | None = None


def is_secret_name(name: str) -> bool:
    """Whether a value under this name is a secret whatever it looks like (`password`, `client_secret`)."""
    return _SECRET_NAME.fullmatch(name) is not None


def _whole(check: Callable[[str], bool]) -> Callable[[str], int | None]:
    return lambda candidate: len(candidate) if check(candidate) else None


# Repeats before a value are possessive (`{0,8}+`): giving a space back would hide the mark behind it.
# A run starts here: no letter or digit stands before it, unless it ends an escape (`\n`, `%20`, `\u0022`).
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
_MARK: Final = r"\[redacted:[a-z_]+\]"

_FOR_LOGIN: Final = r"(?:pass(?:word|wd|phrase|code)|pwd)"
_FOR_KEY: Final = (
    r"(?:api|access|secret|private|encryption|signing|account|auth|shared[_-]?access|secret[_-]?access|master)"
    r"[_-]?key(?:[_-]?id)?"
)
_FOR_CLIENT: Final = r"client[_-]?secret"
_FOR_BEARER: Final = r"(?:token|secret|credentials?)"
_SUFFIX: Final = r"(?:[_-]?(?:confirmation|confirm|hash|value|string|new|old|\d))?"
_SECRET_NAME: Final = re.compile(
    rf"(?i)[\w.-]{{0,64}}(?:{_FOR_LOGIN}|{_FOR_KEY}|{_FOR_BEARER}|authorization|cookie){_SUFFIX}|pass|pw"
)

# `name: value`, `"name": "value"`, `\"name\": \"value\"`, `name => value`; never a comparison.
_ASSIGN: Final = r"[\"'`\\]{0,4}[ \t]{0,8}+(?:=>|:?=(?!=)|:)[ \t]{0,8}+"
_NO_VALUE: Final = (
    rf"(?!{_MARK}|(?:null|none|nil|true|false|undefined|str|string|int|bool|required|optional|missing|invalid)"
    r"(?:[\s\"'`,;)}\]\\]|$))"
)
# Up to the same quote that opened it, at the same depth of escaping; or to the line's end where it was cut.
_QUOTED: Final = rf"(?P<quote>\\{{0,3}}[\"'`]){_NO_VALUE}(?P<secret>(?:(?!(?<!\\)(?P=quote))[^\r\n]){{%s,}})"
_BARE: Final = rf"{_NO_VALUE}(?P<secret>%s(?:[^\s\"'`<>\\]|\\(?![nrt\"'])){{%s,}})"
# A bare value of a name that prose uses as well (`token`) counts when it has a digit or is long.
_SECRETIVE: Final = r"(?=[^\s\"'`<>\\]{0,256}\d|[^\s\"'`<>\\]{20})"


def _assigned(
    kind: str, name: str, *, quoted_min: int, bare_min: int, bare_if: str = "", hint: str = ""
) -> tuple[SecretPattern, ...]:
    start = rf"(?i){name}{_SUFFIX}{_ASSIGN}"
    return (
        SecretPattern(kind, re.compile(start + _QUOTED % quoted_min), hint),
        SecretPattern(kind, re.compile(start + _BARE % (bare_if, bare_min)), hint),
    )


def _shape(kind: str, pattern: str, hint: str = "") -> SecretPattern:
    return SecretPattern(kind, re.compile(rf"(?P<secret>{pattern})"), hint)


def _inside(kind: str, pattern: str, hint: str = "") -> SecretPattern:
    return SecretPattern(kind, re.compile(pattern), hint)


# In this order: the surest shapes first, so that a secret gets its own kind and not that of the name before it.
SECRET_PATTERNS: Final[tuple[SecretPattern, ...]] = (
    _shape("jwt", r"eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_-]{2,8192}(?:\.[A-Za-z0-9_-]*){1,3}"),
    _shape("anthropic_key", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _shape("openai_key", _START + r"sk-(?=[A-Za-z_-]{0,128}\d)[A-Za-z0-9_-]{20,}", hint="sk-"),
    _shape("stripe_key", r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"),
    _shape("github_token", r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"),
    _shape("gitlab_token", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_.-]{16,}"),
    _shape("slack_token", r"xox[a-z]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"),
    _inside("slack_webhook", r"hooks\.slack\.com/[a-z]{4,16}/(?P<secret>[A-Za-z0-9/_+-]{10,})"),
    _shape("google_key", r"AIza[A-Za-z0-9_-]{35,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"),
    _shape("npm_token", r"npm_[A-Za-z0-9]{36,}"),
    _shape("pypi_token", r"pypi-(?:AgE[A-Za-z0-9_-]{16,}|[A-Za-z0-9_-]{50,})"),
    _shape("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,128}\.[A-Za-z0-9_-]{16,}"),
    _shape("twilio_key", r"(?:SK|AC)(?<![0-9A-Fa-f]..)[0-9a-fA-F]{32}(?![0-9a-fA-F])"),
    _shape("telegram_bot_token", r"(?<!\d)\d{8,10}:[A-Za-z0-9_-]{35,}"),
    _shape("aws_access_key", r"A(?:KIA|SIA|BIA|CCA|GPA|IDA|ROA|NPA|NVA)[A-Z0-9]{16}(?![A-Z0-9])"),
    _inside(
        "aws_secret_key",
        r"(?i)aws[\w.-]{0,20}(?:secret|sk)[\w.-]{0,20}[\"'\\]{0,4}+\s{0,8}+[=:]\s{0,8}+[\"'\\]{0,4}+"
        r"(?P<secret>[A-Za-z0-9/+]{40,})",
    ),
    _shape(
        "vendor_token",
        r"hf_[A-Za-z0-9]{30,}|do[opr]_v1_[a-f0-9]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}|dapi[a-f0-9]{32,}"
        r"|hv[sbr]\.[A-Za-z0-9_-]{20,}|ATATT3[A-Za-z0-9_=-]{20,}|lin_api_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{30,}"
        r"|PMAK-[a-f0-9-]{24,}|key-[0-9a-f]{32,}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}",
    ),
    _inside(
        "authorization",
        r"(?i)authorization[\"'\\]{0,4}+\s{0,8}+[:=]\s{0,8}+[\"'\\]{0,4}+"
        r"(?:(?:bearer|basic|token|digest|negotiate|apikey|key|aws4-hmac-sha256)\s{1,8}+"
        rf"(?!{_MARK})(?P<secret>[^\r\n\"'\\]{{4,}}))",
    ),
    _inside(
        "authorization",
        rf"(?i)authorization[\"'\\]{{0,4}}+\s{{0,8}}+[:=]\s{{0,8}}+[\"'\\]{{0,4}}+(?!{_MARK})"
        r"(?P<secret>[^\s\"'\\,;]{12,}[^\r\n\"'\\]*)",
    ),
    _inside(
        "authorization", rf"(?i){_START}bearer\s{{1,8}}+(?P<secret>[A-Za-z0-9._~+/-]{{16,}}=*)", hint="bearer"
    ),
    SecretPattern(
        "authorization",
        re.compile(rf"(?i){_START}basic\s{{1,8}}+(?P<secret>[A-Za-z0-9+/]{{6,1024}}={{0,2}})"),
        hint="basic",
        length=_whole(is_basic_login),
    ),
    _inside(
        "cookie",
        rf"(?i)(?:set-)?cookie[\"'\\]{{0,4}}+\s{{0,8}}+:\s{{0,8}}+[\"'\\]{{0,4}}+(?!{_MARK})(?P<secret>[^\r\n\"'\\]{{8,}})",
        hint="cookie",
    ),
    _inside("url_credentials", rf"://[^\s/@:\"'<>]{{0,128}}:(?!{_MARK}@)(?P<secret>[^\s/\"'<>]{{1,512}})@"),
    _inside("url_credentials", rf"://(?!{_MARK}@)(?P<secret>[^\s/@:\"'<>]{{20,512}})@"),
    _inside(
        "url_signature",
        r"(?i)[?&](?:sig|signature|x-amz-signature|x-amz-security-token)=(?P<secret>[\w%+/=.~-]{16,})",
    ),
    *_assigned("password", _FOR_LOGIN, quoted_min=1, bare_min=1),
    _inside(
        "password",
        rf"(?i){_FOR_LOGIN}\s{{1,8}}+is\s{{1,8}}+(?=[^\s]{{0,64}}[\d!@#$%^&*])(?!{_MARK})(?P<secret>\S{{4,}})",
    ),
    *_assigned("api_key", f"(?:{_FOR_KEY})", quoted_min=4, bare_min=4, hint="key"),
    *_assigned("api_key", _FOR_CLIENT, quoted_min=4, bare_min=4, hint="client"),
    *_assigned("token", _FOR_BEARER, quoted_min=6, bare_min=8, bare_if=_SECRETIVE),
    SecretPattern(
        "iban",
        re.compile(_START + r"(?P<secret>[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,40})"),
        length=iban_length,
    ),
    SecretPattern(
        "card_number",
        re.compile(
            r"(?<!\d)(?P<secret>\d{13,19}|\d{4}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{1,7}"
            r"|\d{4}(?P<gap2>[ -])\d{6}(?P=gap2)\d{5})(?!\d)"
        ),
        length=_whole(is_card_number),
    ),
    _shape("us_ssn", r"(?<!\d)(?<!\d-)(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?!-?\d)"),
)
