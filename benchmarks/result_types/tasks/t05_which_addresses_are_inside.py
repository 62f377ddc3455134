"""Which of these addresses are private, which are in our network 10.20.0.0/16, and how many hosts fit in there?"""

from servers.calc import ip

addresses = ["10.20.3.4", "10.9.9.9", "8.8.8.8", "127.0.0.1"]
report = []
for address in addresses:
    facts = ip(action="info", ip=address)
    inside = ip(action="contains", cidr="10.20.0.0/16", target=address)
    report.append((address, facts["version"], facts["isPrivate"] or facts["isLoopback"], inside["contains"]))
network = ip(action="range", cidr="10.20.0.0/16")
{"report": report, "first": network["firstHost"], "last": network["lastHost"], "hosts": network["hostCount"]}
