"""One made-up secret of each kind, put together here so that no scanner takes this file for a leak."""

from typing import Final

_LETTERS: Final = "aZ3bY8cX5dW1eV7fU2gT9hS4iR6jQ0kPmNoL"
_HEX: Final = "0123456789abcdef0123456789abcdef"
_BASE64_LINE: Final = "MIIEpAIBAAKCAQEAvX3b9cQ8zL1n7" + _LETTERS

# kind -> (the text as a trace has it, the part of it that must not come through)
PLANTED: Final[dict[str, tuple[str, str]]] = {
    "private_key": (
        f"-----BEGIN RSA PRIVATE KEY-----\n{_BASE64_LINE}\n{_BASE64_LINE}\n-----END RSA PRIVATE KEY-----",
        _BASE64_LINE,
    ),
    "jwt": (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{_LETTERS}", "eyJzdWIiOiIxMjM0In0"),
    "aws_access_key": ("AKIA" + "IOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    "aws_secret_key": (
        "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI",
    ),
    "github_token": ("ghp_" + _LETTERS, _LETTERS),
    "gitlab_token": ("glpat-" + _LETTERS[:20], _LETTERS[:20]),
    "slack_token": ("xoxb-" + "123456789012-" + _LETTERS[:24], _LETTERS[:24]),
    "slack_webhook": ("https://hooks.slack.com/services/T0001/B0001/" + _LETTERS[:24], _LETTERS[:24]),
    "stripe_key": ("sk_live_" + _LETTERS[:24], _LETTERS[:24]),
    "openai_key": ("sk-proj-" + _LETTERS, _LETTERS),
    "anthropic_key": ("sk-ant-api03-" + _LETTERS, _LETTERS),
    "google_key": ("AIza" + _LETTERS[:35], _LETTERS[:35]),
    "npm_token": ("npm_" + _LETTERS, _LETTERS),
    "pypi_token": ("pypi-" + "AgEIcHlwaS5vcmc" + _LETTERS, _LETTERS),
    "twilio_key": ("SK" + _HEX, _HEX),
    "sendgrid_key": (f"SG.{_LETTERS[:22]}.{_LETTERS}", _LETTERS[:22]),
    "telegram_bot_token": (f"123456789:{_LETTERS[:35]}", _LETTERS[:35]),
    "vendor_token": ("hf_" + _LETTERS, _LETTERS),
    "authorization": (f"Authorization: Bearer {_LETTERS}", _LETTERS),
    "cookie": (f"Cookie: session={_LETTERS}; theme=dark", _LETTERS),
    "url_credentials": ("postgresql://lore:hunter2secret@db.internal:5432/lore", "hunter2secret"),
    "url_signature": (f"https://x.blob.example/a?sv=1&sig={_LETTERS}%3D", _LETTERS),
    "password": ("DB_PASSWORD=correct-horse-battery", "correct-horse-battery"),
    "api_key": ('{"api_key": "k-' + _LETTERS[:16] + '"}', _LETTERS[:16]),
    "token": (f"refresh_token: {_LETTERS}", _LETTERS),
    "card_number": ("paid with 4111 1111 1111 1111 today", "4111 1111 1111 1111"),
    "iban": ("to GB82 WEST 1234 5698 7654 32 please", "1234 5698 7654 32"),
    "us_ssn": ("ssn 078-05-1120.", "078-05-1120"),
}
