"""The convergence scenario of MIRCC in ns-3: what it costs there to simulate as much traffic.

A dumbbell with a consumer and a producer for each flow, two routers, and one shared link between
them. What a flow is, is chosen:

- `requests`: a consumer sends a small request at a steady pace; the producer answers each with a
  packet of data at once. The paces share the bottleneck equally and fill it to the given load, as
  eight settled flows of MIRCC do. Both simulators then carry the same number of packets over the
  same hops, but without congestion control here. Left out is all that would only slow ns-3 down: no
  queueing discipline (the device has a queue of its own), no IPv6.
- `tcp`: the producer sends as much as ns-3's own TCP lets it. These are flows that find their
  rates, at queues that are managed, as MIRCC's are; all is as ns-3's helpers set it up.

No checksums in either, no traces but one counter. Not chosen here is how the wheel was compiled:
with logs and assertions, as `build` in the output says. Without them it would be faster.

Only `Simulator.Run` is measured; loading ns-3 and its bindings takes longer than that and is not
counted. One JSON document goes to standard output.
"""

import argparse
import contextlib
import importlib.metadata
import json
import re
import sys
import tempfile
import time

PRODUCER_PORT = 9

# A producer, and the count of what arrives at consumers. ns-3's own UDP echo server answers with as
# many bytes as it was asked with, and Interests are small.
PRODUCER = """
#include "ns3/applications-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

namespace dumbbell {
uint32_t data_bytes = 0;
uint64_t data_packets = 0;

void Answer(ns3::Ptr<ns3::Socket> socket) {
  ns3::Address consumer;
  while (socket->RecvFrom(consumer)) {
    socket->SendTo(ns3::Create<ns3::Packet>(data_bytes), 0, consumer);
  }
}

ns3::Ptr<ns3::Socket> Produce(ns3::Ptr<ns3::Node> node, uint16_t port) {
  auto socket = ns3::Socket::CreateSocket(node, ns3::UdpSocketFactory::GetTypeId());
  socket->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port));
  socket->SetRecvCallback(ns3::MakeCallback(&Answer));
  return socket;
}

void Arrived(ns3::Ptr<const ns3::Packet> packet) {
  if (packet->GetSize() == data_bytes) {
    data_packets += 1;
  }
}

void Count(ns3::Ptr<ns3::Application> consumer) {
  consumer->TraceConnectWithoutContext("Rx", ns3::MakeCallback(&Arrived));
}

uint64_t Received(ns3::Ptr<ns3::Application> sink) {
  return ns3::DynamicCast<ns3::PacketSink>(sink)->GetTotalRx();
}
}
"""

# What IPv4, UDP and ns-3's point-to-point link (PPP) add to a payload.
UDP_HEADER_BYTES = 8
HEADER_BYTES = 20 + UDP_HEADER_BYTES + 2
# TCP's header with the option that carries time stamps.
TCP_HEADER_BYTES = 32


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kind", choices=("requests", "tcp"), default="requests")
    parser.add_argument("--flows", type=int, default=8, help="consumers, each with a producer")
    parser.add_argument("--rate-bits-per-second", type=int, default=100_000_000)
    parser.add_argument("--round-trip-ms", type=float, default=28.0)
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated time")
    parser.add_argument("--load", type=float, default=0.95, help="share of the bottleneck in use")
    parser.add_argument("--data-bytes", type=int, default=1100, help="an encoded Data packet")
    parser.add_argument("--interest-bytes", type=int, default=50, help="an encoded Interest")
    parser.add_argument("--scheduler", default="Map",
                        help="Map (ns-3's own choice), Heap, Calendar, List or PriorityQueue")
    chosen = parser.parse_args()
    if chosen.interest_bytes == chosen.data_bytes:
        parser.error("requests and data of one size cannot be told apart")
    return chosen


def load_ns3():
    # The bindings look for libraries in every folder below the working directory, and give up where
    # they meet two of a kind.
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        try:
            import cppyy
            from ns import ns
        except ImportError as error:
            sys.exit(f"ns-3 cannot be loaded ({error}): install what requirements.txt names")
        if not cppyy.cppdef(PRODUCER):
            sys.exit("the producer does not compile against this ns-3")
    return cppyy, ns


def build(cppyy, ns, chosen):
    """Builds the network, and returns what must outlive the run."""
    # The bottleneck has 10/14 of the delay of a path, each access link 2/14.
    one_way_ms = chosen.round_trip_ms / 2
    access = link(ns, 10 * chosen.rate_bits_per_second, one_way_ms / 7)
    bottleneck = link(ns, chosen.rate_bits_per_second, one_way_ms * 5 / 7)

    consumers, producers, routers = (ns.NodeContainer() for _ in range(3))
    consumers.Create(chosen.flows)
    producers.Create(chosen.flows)
    routers.Create(2)
    stack = ns.InternetStackHelper()
    is_bare = chosen.kind == "requests"
    stack.SetIpv6StackInstall(not is_bare)
    for nodes in (consumers, producers, routers):
        stack.Install(nodes)

    kept = [consumers, producers, routers]
    addresses = ns.Ipv4AddressHelper(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.252"))

    def connect(kind, one, other):
        devices = kind.Install(one, other)
        interfaces = addresses.Assign(devices)
        addresses.NewNetwork()
        if is_bare:
            # Giving an address has installed a queueing discipline.
            ns.TrafficControlHelper().Uninstall(devices)
        kept.extend((devices, interfaces))
        return interfaces.GetAddress(0)

    connect(bottleneck, routers.Get(0), routers.Get(1))
    wire_bits = 8 * (chosen.data_bytes + HEADER_BYTES)
    interval = chosen.flows * wire_bits / (chosen.load * chosen.rate_bits_per_second)
    sinks = []
    for flow in range(chosen.flows):
        own = connect(access, consumers.Get(flow), routers.Get(0))
        address = connect(access, producers.Get(flow), routers.Get(1))
        if chosen.kind == "tcp":
            sinks.append(stream(ns, own, consumers.Get(flow), producers.Get(flow), kept))
            continue
        kept.append(cppyy.gbl.dumbbell.Produce(producers.Get(flow), PRODUCER_PORT))
        consumer = ns.UdpEchoClientHelper(address.ConvertTo(), PRODUCER_PORT)
        consumer.SetAttribute("MaxPackets", ns.UintegerValue(0))  # 0: no end
        consumer.SetAttribute("Interval", ns.TimeValue(ns.Seconds(interval)))
        consumer.SetAttribute("PacketSize", ns.UintegerValue(chosen.interest_bytes))
        application = consumer.Install(consumers.Get(flow))
        application.Start(ns.Seconds(interval * flow / chosen.flows))
        cppyy.gbl.dumbbell.Count(application.Get(0))
        kept.append(application)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    return kept, sinks


def stream(ns, address, consumer, producer, kept):
    """A stream without end from a producer to a consumer, and what counts its bytes."""
    there = ns.InetSocketAddress(address, PRODUCER_PORT)
    sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", there.ConvertTo()).Install(consumer)
    source = ns.BulkSendHelper("ns3::TcpSocketFactory", there.ConvertTo())
    source.SetAttribute("MaxBytes", ns.UintegerValue(0))  # 0: no end
    kept.extend((sink, source.Install(producer)))
    return sink.Get(0)


def link(ns, rate_bits_per_second, delay_ms):
    helper = ns.PointToPointHelper()
    helper.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate_bits_per_second}bps"))
    helper.SetChannelAttribute("Delay", ns.StringValue(f"{round(delay_ms * 1e6)}ns"))
    return helper


def how_built():
    """What ns-3 was compiled with, as its own CMake file tells."""
    distribution = importlib.metadata.distribution("ns3")
    for file in distribution.files or ():
        if file.name == "ns3Targets.cmake":
            switches = r"NS3_(BUILD_PROFILE_\w+|LOG_ENABLE|ASSERT_ENABLE)"
            return sorted(set(re.findall(switches, file.read_text())))
    return []


def main():
    chosen = arguments()
    cppyy, ns = load_ns3()
    ns.Simulator.SetScheduler(ns.ObjectFactory(f"ns3::{chosen.scheduler}Scheduler"))
    cppyy.gbl.dumbbell.data_bytes = chosen.data_bytes
    segment_bytes = chosen.data_bytes - (TCP_HEADER_BYTES - UDP_HEADER_BYTES)
    ns.Config.SetDefault("ns3::TcpSocket::SegmentSize", ns.UintegerValue(segment_bytes))
    kept, sinks = build(cppyy, ns, chosen)

    ns.Simulator.Stop(ns.Seconds(chosen.seconds))
    wall, cpu = time.perf_counter(), time.process_time()
    ns.Simulator.Run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall

    data_packets = int(cppyy.gbl.dumbbell.data_packets)
    for sink in sinks:
        data_packets += int(cppyy.gbl.dumbbell.Received(sink)) // segment_bytes
    print(json.dumps({
        "cpu_seconds": round(cpu, 3),
        "wall_seconds": round(wall, 3),
        "simulated_seconds": chosen.seconds,
        "data_packets": data_packets,
        "goodput_bits_per_second": round(8 * chosen.data_bytes * data_packets / chosen.seconds),
        "events": int(ns.Simulator.GetEventCount()),
        "version": importlib.metadata.version("ns3"),
        "build": how_built(),
        "scheduler": chosen.scheduler,
    }))
    ns.Simulator.Destroy()
    del kept


if __name__ == "__main__":
    main()
