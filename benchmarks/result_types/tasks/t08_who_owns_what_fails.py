"""The mailer is down: which services call it, and who owns those?"""

from servers.memory import open_nodes, read_graph

graph = read_graph()
callers = [it["from"] for it in graph["relations"] if it["to"] == "mailer" and it["relationType"] == "calls"]
owners = [it for it in graph["relations"] if it["relationType"] == "owns" and it["to"] in callers]
people = open_nodes(names=[it["from"] for it in owners])["entities"]
{
    "callers": callers,
    "owners": {
        person["name"]: [said for said in person["observations"] if "@" in said]
        for person in people
        if person["entityType"] == "person"
    },
}
