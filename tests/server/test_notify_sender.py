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
from gpusquad.server.notify.sender import ChannelSender, SendFailed
from tests.server.webhook import webhook

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


def sender(*entries, **options):
    return ChannelSender(AllowList.parse(entries), timeout_s=5.0, **options)


# -- webhooks


def test_a_webhook_gets_title_and_text():
    with webhook() as hook:
        sender("json@127.0.0.1").send(hook.url("/hooks/s3cret"), "the title", "two\nlines")
    assert [(got["title"], got["message"]) for got in hook.got] == [("the title", "two\nlines")]
    assert hook.paths == ["/hooks/s3cret"]


def test_text_arrives_as_it_was_written():
    text = "a <b> & *c* :smile: {d} \\n é"
    with webhook() as hook:
        sender("json@127.0.0.1").send(hook.url(), "t", text)
    assert hook.got[0]["message"] == text


def test_a_failure_tells_the_answer_and_no_secret(caplog):
    caplog.set_level(logging.DEBUG)
    with webhook(500) as hook, pytest.raises(SendFailed) as caught:
        sender("json@127.0.0.1").send(hook.url("/hooks/s3cret?+X-Key=s3cret"), "t", "b")
    assert caught.value.reason == "the channel answered 500"
    assert not caught.value.permanent
    assert "s3cret" not in caplog.text + repr(caught.value)


def test_nobody_there_is_a_failure_without_the_secret(caplog):
    caplog.set_level(logging.DEBUG)
    with webhook() as hook:
        url = hook.url("/hooks/s3cret")
    with pytest.raises(SendFailed, match="cannot be reached"):
        sender("json@127.0.0.1").send(url, "t", "b")
    assert "s3cret" not in caplog.text


def test_redirects_are_not_followed_whatever_the_url_says():
    with (
        webhook() as inside,
        webhook(307, headers={"Location": f"http://127.0.0.1:{inside.port}/"}) as hook,
        pytest.raises(SendFailed, match="307"),
    ):
        sender("json@127.0.0.1").send(hook.url("/?redirect=yes"), "t", "b")
    assert hook.got
    assert not inside.got


def test_a_url_cannot_set_its_own_patience():
    channel = _opened("json://127.0.0.1/?rto=86400&cto=86400", "json@127.0.0.1")
    assert channel.request_timeout == (5.0, 5.0)


# -- who may go where


@pytest.mark.parametrize(
    "url",
    [
        "json://192.0.2.1/", "jsons://hooks.example.org/", "xml://127.0.0.1/", "form://127.0.0.1/", "zulip://bot@org.internal/t",
        "mailto://user:pass@internal", "ntfy://internal/topic", "syslog://localhost", "http://127.0.0.1/", "file://x",
        "apprise://127.0.0.1/token", "dbus://", "nothing://x", "workflows://127.0.0.1/a/b",
    ],
)  # fmt: skip
def test_by_default_nothing_leads_into_the_network(url):
    with pytest.raises(Invalid, match="is not an allowed channel"):
        ChannelSender().check(url)
    with pytest.raises(SendFailed) as caught:
        ChannelSender().send(url, "t", "b")
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

    sender_domain = {"mailgun", "sparkpost", "smtp2go"}  # there it is whom the mail comes from
    for service in apprise.Apprise().details()["schemas"]:
        schemes = {*(service["protocols"] or ()), *(service["secure_protocols"] or ())} & HOSTED
        if schemes - sender_domain:
            assert "host" not in service["details"]["tokens"], schemes


def test_an_entry_with_a_host_holds_to_that_host():
    one = sender("json@127.0.0.1", "jsons@hooks.lab:8443")
    one.check("json://127.0.0.1:99/x")
    one.check("jsons://HOOKS.lab:8443/x")
    for url in ("json://127.0.0.2/", "json://127.0.0.1@192.0.2.1/", "json://127.0.0.1:9@192.0.2.1/", "json://127.0.0.1.evil/",
                "jsons://127.0.0.1/", "jsons://hooks.lab/", "jsons://hooks.lab:8444/", "json://127.0.0.1%2f@192.0.2.1/",
                "json://127.0.0.1?port=1@x", "json://127.0.0.1%23@192.0.2.1/"):  # fmt: skip
        with pytest.raises(Invalid):
            _check_unless_same_host(one, url)


def test_mail_is_held_to_its_server_not_to_its_domain():
    one = sender("mailtos@smtp.lab")
    one.check("mailtos://ann:pw@smtp.lab?to=ann@example.org")
    one.check("mailtos://ann:pw@example.org?smtp=smtp.lab")
    with pytest.raises(Invalid):
        one.check("mailtos://ann:pw@smtp.lab?smtp=internal")


def test_hosted_can_be_kept_beside_others():
    both = sender("hosted", "json@127.0.0.1")
    both.check(SLACK)
    both.check("json://127.0.0.1/")
    with pytest.raises(Invalid):
        sender("json@127.0.0.1").check(SLACK)


@pytest.mark.parametrize("entry", ["", "a b", "slack@host", "json@", "json@ho st", "json@a/b", "json@x@y", "json://x"])
def test_wrong_entries_are_refused(entry):
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
def test_no_url_may_name_a_file_of_the_server(url):
    with pytest.raises(Invalid, match="file of the server"):
        sender("hosted", "mailtos@smtp.lab").check(url)


def test_one_url_has_few_receivers():
    many = "/".join(f"1231554{number:03}" for number in range(50))
    with pytest.raises(Invalid, match="receivers"):
        ChannelSender().check(f"tgram://123456789:abcdefg_hijklmnop/{many}/")


@pytest.mark.parametrize(
    "url", ["", "slack", "slack://", None, 7, "slack://a b", "slack://a\nb", "slack://" + "a" * 3000]
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(Invalid):
        ChannelSender().check(url)


@given(st.text(max_size=60), st.sampled_from(["slack", "json", "tgram", "discord", "mailtos", "https", "file"]))
def test_no_text_breaks_the_check(text, scheme):
    with suppress(Invalid):
        sender("hosted", "json@127.0.0.1", "mailtos@smtp.lab").check(f"{scheme}://{text}")


# -- files


def test_a_file_gets_one_line_a_notice(tmp_path):
    one = sender("file@notices.jsonl", folder=tmp_path / "notices")
    one.send("file://notices.jsonl", "a", "b\nc")
    one.send("file://notices.jsonl", "d", "e")
    lines = (tmp_path / "notices" / "notices.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"title": "a", "body": "b\nc"}, {"title": "d", "body": "e"}]


@pytest.mark.parametrize(
    "name", ["", "..", ".", ".hidden", "../x", "/etc/passwd", "a/b", "a\\b", "a%2fb", "~", "a?b", "A", "x" * 65, "a\0b"]
)
def test_file_names_lead_nowhere_else(tmp_path, name):
    with pytest.raises(Invalid):
        sender("file", folder=tmp_path).check(f"file://{name}")


def test_files_need_a_folder_and_an_entry(tmp_path):
    for one in (sender("file"), sender("hosted", folder=tmp_path), sender("file@other", folder=tmp_path)):
        with pytest.raises(Invalid, match="not an allowed"):
            one.check("file://x")


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").symlink_to(outside)
    with pytest.raises(SendFailed):
        sender("file", folder=tmp_path / "in").send("file://x", "t", "b")
    assert outside.read_text() == ""


def test_a_full_file_takes_no_more(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(MAX_FILE_BYTES)
    with pytest.raises(SendFailed, match="full"):
        sender("file", folder=tmp_path).send("file://x", "t", "b")


# -- what is shown


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
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert mask(url) == shown


def test_apprise_is_loaded_only_by_who_sends():
    code = "import gpusquad.server.notify.sender, sys; sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def _opened(url, *entries):
    from gpusquad.server.notify.apprise_channel import AppriseChannel

    return AppriseChannel(url, AllowList.parse(entries), 5.0)._plugin


def _check_unless_same_host(one, url):
    """Where the text is read in an odd way, what counts is where it leads."""
    one.check(url)
    if _opened(url, *one.allow.entries).host == "127.0.0.1":
        raise Invalid("url", "leads to the host that is allowed")
