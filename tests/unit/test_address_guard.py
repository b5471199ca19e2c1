"""Nothing is sent to an address that is not public, however it is written or resolved: no connection is even tried."""

from ipaddress import ip_address

import pytest

from packhorse.alerts.address_guard import guard, is_public
from packhorse.alerts.http_client import HttpClient
from packhorse.errors import AddressRefused, DeliveryFailed, InvalidOption

PUBLIC = "93.184.216.34"
PUBLIC_V6 = "2606:2800:220:1::1"


class Network:
    """A resolver with set answers and an opener that records every address and connects to none."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked, self.opened = list(answers), [], []

    async def resolve(self, host, port):
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def connect(self, address, port, tls, name):
        self.opened.append((address, port, name))
        raise ConnectionRefusedError("nothing leaves the machine")

    async def send(self, url, **options):
        given = {"allow": (), "ports": (), "http": False, **options}
        client = HttpClient(
            guard(given["allow"], given["ports"], http=given["http"]), resolve=self.resolve, connect=self.connect
        )
        await client.send("POST", url, {}, b"{}")


# by how they are written: these are refused before anything is resolved
WRITTEN = (
    "https://127.0.0.1/", "https://127.1/", "https://127.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/",
    "https://0177.0.0.1/", "https://0/", "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://[::1]/",
    "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1]/", "https://[fc00::1]/",
    "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://\uff11\uff12\uff17.\uff10.0.1/", "https://127\u30020\u30020\u30021/",
    f"https://{PUBLIC}/",
    f"https://[{PUBLIC_V6}]/", "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
    "//example.com/", "example.com", "https:///path", "https://user@example.com/", "https://user:pw@example.com/",
    "https://example.com@10.0.0.1/", "https://example.com:80/", "https://example.com:22/", "https://example.com:99999/",
    "https://example.com:x/", "https://exa mple.com/", "https://example.com/\r\nHost: internal", "https://example.com\\@10.0.0.1/",
    "https://example.com/a b", "https://example.com/\u00e9", "https://-example.com/", "https://a..b/", "https://" + "a" * 64 + ".com/",
    "https://example.com/" + "a" * 3000, "https://[::1%25lo]/", "https://0x7f.0.0.0x1/",
)  # fmt: skip

# by what their names resolve to: these are refused before anything is connected to
RESOLVED = (
    ["127.0.0.1"], ["0.0.0.0"], ["10.1.2.3"], ["172.16.0.1"], ["192.168.1.1"], ["169.254.169.254"], ["100.64.0.1"],
    ["100.100.100.200"], ["168.63.129.16"], ["192.0.0.1"], ["192.0.2.1"], ["192.88.99.1"], ["198.18.0.1"], ["198.51.100.1"],
    ["203.0.113.1"], ["224.0.0.1"], ["239.255.255.250"], ["240.0.0.1"], ["255.255.255.255"], ["::1"], ["::"], ["fe80::1"],
    ["fe80::1%1"], ["fec0::1"], ["fc00::1"], ["fd00:ec2::254"], ["ff02::1"], ["::ffff:10.0.0.1"], ["::ffff:169.254.169.254"],
    ["::127.0.0.1"], ["64:ff9b::7f00:1"], ["64:ff9b::a9fe:a9fe"], ["64:ff9b:1::1"], ["2002:7f00:1::"], ["2002:a9fe:a9fe::"],
    ["2001:0:7f00:1::"], ["2001:0:5db8:d822::80ff:fffe"], ["2001:db8::1"], ["100::1"], ["3fff::1"], [PUBLIC, "10.0.0.1"],
    [PUBLIC_V6, "::1"], ["not an address"], [],
)  # fmt: skip


def test_there_are_enough_of_them():
    assert len(WRITTEN) + len(RESOLVED) >= 60


@pytest.mark.parametrize("url", WRITTEN)
async def test_an_address_that_is_not_written_as_it_must_be_is_not_even_resolved(url):
    network = Network([PUBLIC])
    with pytest.raises(AddressRefused):
        await network.send(url)
    assert (network.asked, network.opened) == ([], [])


@pytest.mark.parametrize("answers", RESOLVED, ids=str)
async def test_a_name_of_which_one_address_is_not_public_is_not_connected_to(answers):
    network = Network(answers)
    with pytest.raises(AddressRefused):
        await network.send("https://hooks.example.com/x", http=True)
    assert (network.asked, network.opened) == (["hooks.example.com"], [])


async def test_a_resolver_that_changes_its_answer_is_asked_once_and_the_judged_address_is_connected_to():
    network = Network([PUBLIC], ["127.0.0.1"])
    with pytest.raises(DeliveryFailed):
        await network.send("https://rebinding.example.com/x")
    assert network.asked == ["rebinding.example.com"]
    assert network.opened == [(PUBLIC, 443, "rebinding.example.com")]
    with pytest.raises(AddressRefused):  # the next attempt is judged again
        await network.send("https://rebinding.example.com/x")
    assert network.opened == [(PUBLIC, 443, "rebinding.example.com")]


async def test_all_public_addresses_are_tried_and_none_else():
    network = Network([PUBLIC_V6, PUBLIC, PUBLIC])
    with pytest.raises(DeliveryFailed):
        await network.send("https://Exämple.com:443/x")
    assert network.asked == ["xn--exmple-cua.com"]
    assert network.opened == [(PUBLIC_V6, 443, "xn--exmple-cua.com"), (PUBLIC, 443, "xn--exmple-cua.com")]


async def test_networks_and_ports_can_be_allowed_and_nothing_beside_them():
    network = Network(["10.2.3.4"])
    allowed = {"allow": ["10.2.0.0/16"], "ports": [8443], "http": True}
    for url in ("https://intra/x", "http://intra/x", "https://intra:8443/x", "https://10.2.9.9/x"):
        with pytest.raises(DeliveryFailed):
            await network.send(url, **allowed)
    assert [(address, port) for address, port, _ in network.opened] == [
        ("10.2.3.4", 443), ("10.2.3.4", 80), ("10.2.3.4", 8443), ("10.2.3.4", 443),
    ]  # fmt: skip
    network = Network(["10.3.0.1"])
    for url in ("https://intra/x", "https://10.3.0.1/x", "https://[::1]/x", "https://intra:9000/x"):
        with pytest.raises(AddressRefused):
            await network.send(url, **allowed)
    assert network.opened == []


async def test_an_address_that_is_mapped_into_an_allowed_network_is_allowed():
    network = Network(["::ffff:10.2.0.1"])
    with pytest.raises(DeliveryFailed):
        await network.send("https://intra/", allow=["10.2.0.0/16"])
    assert network.opened == [("::ffff:10.2.0.1", 443, "intra")]


@pytest.mark.parametrize(
    "address", [PUBLIC, PUBLIC_V6, "8.8.8.8", f"::ffff:{PUBLIC}", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_public_addresses_are_public_in_every_form(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize("allow", ["10.0.0.0/8", ["10.2.0.1/16"], ["intranet"]])
def test_a_network_that_is_not_one_is_refused(allow):
    with pytest.raises(InvalidOption, match="network"):
        guard(allow, (), http=False)


@pytest.mark.parametrize("ports", [[0], [70000], ["443"], [True]])
def test_a_port_that_is_not_one_is_refused(ports):
    with pytest.raises(InvalidOption, match="ports"):
        guard((), ports, http=False)
