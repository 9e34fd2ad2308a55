"""What is secret, and how it is masked."""

from __future__ import annotations

import pytest

from knobledger.knobs import Dialect, Masker, Reading

KEY = b"k" * 32


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "AWS_ACCESS_KEY_ID",
        "--api-key",
        "--hf-token",
        "WANDB_API_KEY",
        "HUGGING_FACE_HUB_TOKEN",
        "PGPASSWORD",
        "GITHUB_TOKEN",
        "SSH_PRIVATE_KEY",
        "TOKEN",
        "SECRET",
        "apiKey",
        "MYSQL_PWD",
        "--admin-api-key",
    ],
)
def test_secret_names(name: str) -> None:
    assert Masker(KEY).is_secret(name, "abcdefgh12")


@pytest.mark.parametrize(
    "name",
    [
        "MAX_TOKENS",
        "TOKENIZER_PATH",
        "--max-total-tokens",
        "KEY_CACHE_DTYPE",
        "AUTHOR",
        "TOKENIZERS_PARALLELISM",
        "--tokenizer",
        "MONKEY",
        "--skip-tokenizer-init",
        "--chunked-prefill-size",
        "PWD",
        "COMPASS",
        "KV_CACHE_KEY",
        "--max-prefill-tokens",
        "PAD_TOKEN_ID",
    ],
)
def test_other_names(name: str) -> None:
    assert not Masker(KEY).is_secret(name, "abcdefgh12")


@pytest.mark.parametrize(
    "value",
    [
        "hf_abcdefghijklmnop",
        "sk-abcdef1234567890",
        "http://bob:hunter22@host/x",
        "Authorization: Bearer abc.def-123",
    ],
)
def test_secret_values(value: str) -> None:
    masker = Masker(KEY)
    assert masker.is_secret("ANYTHING", value)
    masked = masker.value("ANYTHING", value)
    assert masked is not None
    assert "<secret " in masked
    for part in ("abcdefghijklmnop", "abcdef1234567890", "hunter22", "abc.def-123"):
        assert part not in masked


def test_same_value_same_mask() -> None:
    one, two = Masker(KEY), Masker(KEY)
    assert one.mask("value-one") == two.mask("value-one") != one.mask("value-two")
    assert one.mask("value-one") != Masker(b"other").mask("value-one")
    assert one.mask(one.mask("value-one")) == one.mask("value-one")
    assert " ".join(one.mask("x").split()) == one.mask("x")


def test_add_and_keep() -> None:
    masker = Masker(KEY, add=["*_PIN"], keep=["HF_TOKEN"])
    assert masker.value("DOOR_PIN", "4711-4711") != "4711-4711"
    assert masker.value("HF_TOKEN", "abcdefgh12") == "abcdefgh12"
    assert masker.value("PORT", "30000") == "30000"
    assert masker.value("HF_TOKEN", None) is None


def test_content_is_masked_everywhere() -> None:
    content = b"""#!/bin/bash
export HF_TOKEN=hf_abcdefghijkl
# export HF_TOKEN="old-secret-token"
URL=http://bob:hunter22@host:80/x
cat > x.sh <<EOF
export DB_PASSWORD='p w d 9'
EOF
curl -H "Authorization: Bearer abc.def-123456" x
srv --api-key sk-1234567890ab --max-total-tokens 5 hunter22
export SSH_PRIVATE_KEY="-----BEGIN PRIVATE KEY-----
abc
-----END PRIVATE KEY-----"
"""
    masker = Masker(KEY)
    masked = masker.content(Reading.of(content, Dialect.BASH))
    assert masked.count(b"\n") == content.count(b"\n")
    for secret in (b"hf_abc", b"old-secret", b"hunter22", b"p w d 9", b"abc.def", b"sk-123", b"\nabc\n"):
        assert secret not in masked
    assert b"--max-total-tokens 5 " in masked
    assert b"export HF_TOKEN=<secret " in masked
    assert "old-secret-token" not in masker.text("it was old-secret-token before")


def test_text_is_masked_once() -> None:
    masker = Masker(KEY)
    once = masker.text("OPENAI_API_KEY=zzz123456 and hf_abcdefghijkl")
    assert "zzz123456" not in once
    assert "hf_abc" not in once
    assert masker.text(once) == once


def test_plain_content_is_left_alone() -> None:
    content = b"export A=1\r\n\xff\xfe\nsrv --max-tokens 7 --key-cache-dtype fp8 --token-budget 9\n"
    assert Masker(KEY).content(Reading.of(content, Dialect.BASH)) == content


@pytest.mark.parametrize(
    "text",
    [
        "sed -i API_KEY=zzz123456 x",
        "--config API_KEY=zzz123456",
        'said "API_KEY=zzz123456',
        "a b API_KEY=zzz123456",
    ],
)
def test_a_word_before_a_secret_does_not_hide_it(text: str) -> None:
    assert "zzz123456" not in Masker(b"k" * 32).text(text)
