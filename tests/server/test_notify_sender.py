"""ChannelSender: webhooks, allowed channels, files and masked URLs."""

import json
import logging
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.server.notify.channels import BY_HOST, HOSTED, AllowList, mask
from gpusquad.server.notify.file_channel import MAX_FILE_BYTES
from gpusquad.server.notify.messages import NoticeMessage
from gpusquad.server.notify.sender import ChannelSender, SendFailed
from tests.server.webhook import webhook

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


def sender(*entries, **options):
    return ChannelSender(AllowList.parse(entries), timeout_s=5.0, **options)


# -- webhooks


def test_webhook_gets_title_and_text():
    with webhook() as hook:
        sender("json@127.0.0.1").send(hook.url("/hooks/s3cret"), NoticeMessage("the title", "two\nlines"))
    assert [(request["title"], request["message"]) for request in hook.received] == [("the title", "two\nlines")]
    assert hook.paths == ["/hooks/s3cret"]


def test_text_arrives_unchanged():
    text = "a <b> & *c* :smile: {d} \\n é"
    with webhook() as hook:
        sender("json@127.0.0.1").send(hook.url(), NoticeMessage("t", text))
    assert hook.received[0]["message"] == text


def test_failure_reports_the_status_without_secrets(caplog):
    caplog.set_level(logging.DEBUG)
    with webhook(500) as hook, pytest.raises(SendFailed) as caught:
        sender("json@127.0.0.1").send(hook.url("/hooks/s3cret?+X-Key=s3cret"), NoticeMessage("t", "b"))
    assert caught.value.reason == "the channel answered 500"
    assert not caught.value.permanent
    assert "s3cret" not in caplog.text + repr(caught.value)


def test_unreachable_webhook_is_reported_without_secrets(caplog):
    caplog.set_level(logging.DEBUG)
    with webhook() as hook:
        url = hook.url("/hooks/s3cret")
    with pytest.raises(SendFailed, match="cannot be reached"):
        sender("json@127.0.0.1").send(url, NoticeMessage("t", "b"))
    assert "s3cret" not in caplog.text


def test_redirects_are_not_followed_even_if_the_url_asks_for_it():
    with (
        webhook() as inside,
        webhook(307, headers={"Location": f"http://127.0.0.1:{inside.port}/"}) as hook,
        pytest.raises(SendFailed, match="307"),
    ):
        sender("json@127.0.0.1").send(hook.url("/?redirect=yes"), NoticeMessage("t", "b"))
    assert hook.received
    assert not inside.received


def test_url_cannot_change_the_timeouts():
    channel = _open_plugin("json://127.0.0.1/?rto=86400&cto=86400", "json@127.0.0.1")
    assert channel.request_timeout == (5.0, 5.0)


# -- allowed channels


@pytest.mark.parametrize(
    "url",
    [
        "json://192.0.2.1/", "jsons://hooks.example.org/", "xml://127.0.0.1/", "form://127.0.0.1/", "zulip://bot@org.internal/t",
        "mailto://user:pass@internal", "ntfy://internal/topic", "syslog://localhost", "http://127.0.0.1/", "file://x",
        "apprise://127.0.0.1/token", "dbus://", "nothing://x", "workflows://127.0.0.1/a/b",
    ],
)  # fmt: skip
def test_channels_with_a_host_are_refused_by_default(url):
    with pytest.raises(Invalid, match="is not an allowed channel"):
        ChannelSender().check(url)
    with pytest.raises(SendFailed) as caught:
        ChannelSender().send(url, NoticeMessage("t", "b"))
    assert caught.value.permanent


def test_hosted_services_are_allowed_by_default():
    ChannelSender().check(SLACK)
    ChannelSender().check("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    ChannelSender().check("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js")
    ChannelSender().check("tgram://123456789:abcdefg_hijklmnop/12315544/")


def test_apprise_knows_every_scheme_we_name():
    from apprise.manager_plugins import NotificationManager

    known = NotificationManager()
    assert {scheme for scheme in HOSTED | BY_HOST if scheme not in known} == {"file"}


def test_default_services_have_no_host_in_their_url():
    import apprise

    sender_domain = {"mailgun", "sparkpost", "smtp2go"}  # there, the host is the sender's domain
    for service in apprise.Apprise().details()["schemas"]:
        schemes = {*(service["protocols"] or ()), *(service["secure_protocols"] or ())} & HOSTED
        if schemes - sender_domain:
            assert "host" not in service["details"]["tokens"], schemes


def test_entry_with_a_host_allows_only_that_host():
    channel_sender = sender("json@127.0.0.1", "jsons@hooks.lab:8443")
    channel_sender.check("json://127.0.0.1:99/x")
    channel_sender.check("jsons://HOOKS.lab:8443/x")
    for url in ("json://127.0.0.2/", "json://127.0.0.1@192.0.2.1/", "json://127.0.0.1:9@192.0.2.1/", "json://127.0.0.1.evil/",
                "jsons://127.0.0.1/", "jsons://hooks.lab/", "jsons://hooks.lab:8444/", "json://127.0.0.1%2f@192.0.2.1/",
                "json://127.0.0.1?port=1@x", "json://127.0.0.1%23@192.0.2.1/"):  # fmt: skip
        with pytest.raises(Invalid):
            _check_unless_same_host(channel_sender, url)


def test_mail_is_allowed_by_its_server_not_its_domain():
    channel_sender = sender("mailtos@smtp.lab")
    channel_sender.check("mailtos://ann:pw@smtp.lab?to=ann@example.org")
    channel_sender.check("mailtos://ann:pw@example.org?smtp=smtp.lab")
    with pytest.raises(Invalid):
        channel_sender.check("mailtos://ann:pw@smtp.lab?smtp=internal")


def test_hosted_channels_can_be_allowed_with_others():
    both = sender("hosted", "json@127.0.0.1")
    both.check(SLACK)
    both.check("json://127.0.0.1/")
    with pytest.raises(Invalid):
        sender("json@127.0.0.1").check(SLACK)


@pytest.mark.parametrize("entry", ["", "a b", "slack@host", "json@", "json@ho st", "json@a/b", "json@x@y", "json://x"])
def test_invalid_entries_are_refused(entry):
    with pytest.raises(Invalid):
        AllowList.parse([entry])


@pytest.mark.parametrize(
    "url",
    [
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js?template=/etc/passwd",
        f"{SLACK}?template=/etc/passwd",
        f"{SLACK}?TEMPLATE=/etc/passwd",
        "mailtos://ann:pw@smtp.lab?pgp=yes&pgpkey=/etc/passwd",
    ],
)
def test_url_that_names_a_file_of_the_server_is_refused(url):
    with pytest.raises(Invalid, match="file of the server"):
        sender("hosted", "mailtos@smtp.lab").check(url)


def test_url_with_too_many_receivers_is_refused():
    many = "/".join(f"1231554{number:03}" for number in range(50))
    with pytest.raises(Invalid, match="receivers"):
        ChannelSender().check(f"tgram://123456789:abcdefg_hijklmnop/{many}/")


@pytest.mark.parametrize(
    "url", ["", "slack", "slack://", None, 7, "slack://a b", "slack://a\nb", "slack://" + "a" * 3000]
)
def test_invalid_url_is_refused(url):
    with pytest.raises(Invalid):
        ChannelSender().check(url)


@given(st.text(max_size=60), st.sampled_from(["slack", "json", "tgram", "discord", "mailtos", "https", "file"]))
def test_check_raises_only_invalid_for_any_text(text, scheme):
    with suppress(Invalid):
        sender("hosted", "json@127.0.0.1", "mailtos@smtp.lab").check(f"{scheme}://{text}")


# -- files


def test_file_gets_one_line_per_notice(tmp_path):
    channel_sender = sender("file@notices.jsonl", folder=tmp_path / "notices")
    channel_sender.send("file://notices.jsonl", NoticeMessage("a", "b\nc"))
    channel_sender.send("file://notices.jsonl", NoticeMessage("d", "e"))
    lines = (tmp_path / "notices" / "notices.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"title": "a", "body": "b\nc"}, {"title": "d", "body": "e"}]


@pytest.mark.parametrize(
    "name", ["", "..", ".", ".hidden", "../x", "/etc/passwd", "a/b", "a\\b", "a%2fb", "~", "a?b", "A", "x" * 65, "a\0b"]
)
def test_file_names_outside_of_the_folder_are_refused(tmp_path, name):
    with pytest.raises(Invalid):
        sender("file", folder=tmp_path).check(f"file://{name}")


def test_file_channel_needs_a_folder_and_an_entry(tmp_path):
    for channel_sender in (sender("file"), sender("hosted", folder=tmp_path), sender("file@other", folder=tmp_path)):
        with pytest.raises(Invalid, match="not an allowed"):
            channel_sender.check("file://x")


def test_symlink_in_the_folder_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").symlink_to(outside)
    with pytest.raises(SendFailed):
        sender("file", folder=tmp_path / "in").send("file://x", NoticeMessage("t", "b"))
    assert outside.read_text() == ""


def test_full_file_is_not_extended(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(MAX_FILE_BYTES)
    with pytest.raises(SendFailed, match="full"):
        sender("file", folder=tmp_path).send("file://x", NoticeMessage("t", "b"))


# -- masked URLs


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (SLACK, "slack://…"),
        ("https://hooks.slack.com/services/T/B/s3cret", "https://hooks.slack.com/…"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("json://user:s3cret@127.0.0.1:99/s3cret?+k=s3cret", "json://127.0.0.1:99/…"),
        ("json://127.0.0.1?s3cret", "json://127.0.0.1/…"),
        ("mailtos://ann:s3cret@smtp.lab", "mailtos://smtp.lab/…"),
        ("tgram://123:s3cret/chat", "tgram://…"),
        ("s3cret", "…"),
        ("s3 cret://x", "…"),
        ("json://a@s3cret cret", "json://…"),
    ],
)
def test_url_is_masked_without_its_secrets(url, shown):
    assert mask(url) == shown


def test_apprise_is_loaded_only_when_sending():
    code = "import gpusquad.server.notify.sender, sys; sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def _open_plugin(url, *entries):
    from gpusquad.server.notify.apprise_channel import AppriseChannel

    return AppriseChannel(url, AllowList.parse(entries), 5.0)._plugin


def _check_unless_same_host(channel_sender, url):
    """Check a URL. Also raise Invalid if it was accepted because it leads to the allowed host, which is harmless."""
    channel_sender.check(url)
    if _open_plugin(url, *channel_sender.allow.entries).host == "127.0.0.1":
        raise Invalid("url", "leads to the host that is allowed")
