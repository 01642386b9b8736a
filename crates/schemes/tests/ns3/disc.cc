// Plays recorded arrivals over a queue disc of ns-3 before a link of constant rate, and prints the fate of each packet.
//
//     disc RATE ns3::CoDelQueueDisc [NAME=VALUE...] < arrivals > fates
//
// The arrivals have the format of docs/internals/conformance.md, without the times of the link: here the link accepts the next packet when the one
// before has left. RATE is in bits per second. A NAME with `::` is a default of another class. `Quantum` of FQ-CoDel is no attribute and
// is handled separately. A line of the output has a packet number behind a sign: `>` sent, `-` refused, `!` dropped later, `*` marked.

#include <ns3/config.h>
#include <ns3/fq-codel-queue-disc.h>
#include <ns3/object-factory.h>
#include <ns3/packet.h>
#include <ns3/queue-disc.h>
#include <ns3/simulator.h>
#include <ns3/string.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

struct Arrival
{
    uint64_t time;
    uint32_t length;
    uint32_t flow;
    bool capable;
};

// A packet for queue discs, with its number.
class Item : public QueueDiscItem
{
  public:
    Item(const Arrival& arrival, uint32_t number)
        : QueueDiscItem(Create<Packet>(arrival.length), Address(), 0),
          number(number),
          m_flow(arrival.flow),
          m_capable(arrival.capable)
    {
    }

    void AddHeader() override
    {
    }

    bool Mark() override
    {
        if (m_capable)
        {
            std::cout << "* " << number << '\n';
        }
        return m_capable;
    }

    uint32_t Hash(uint32_t) const override
    {
        return m_flow;
    }

    const uint32_t number;

  private:
    uint32_t m_flow;
    bool m_capable;
};

void
Tell(char fate, Ptr<const QueueDiscItem> item)
{
    std::cout << fate << ' ' << DynamicCast<const Item>(item)->number << '\n';
}

void
Refused(Ptr<const QueueDiscItem> item, const char*)
{
    Tell('-', item);
}

void
Dropped(Ptr<const QueueDiscItem> item, const char*)
{
    Tell('!', item);
}

// The link behind the disc.
class Link
{
  public:
    Link(Ptr<QueueDisc> disc, uint64_t rate, std::vector<Arrival> arrivals)
        : m_disc(disc),
          m_rate(rate),
          m_arrivals(std::move(arrivals))
    {
    }

    void Begin()
    {
        Schedule();
    }

  private:
    void Schedule()
    {
        if (m_next < m_arrivals.size())
        {
            const Time at = NanoSeconds(m_arrivals[m_next].time);
            Simulator::Schedule(at - Simulator::Now(), &Link::Arrive, this);
        }
        else if (!m_busy)
        {
            Simulator::Stop();
        }
    }

    void Arrive()
    {
        Ptr<Item> item = Create<Item>(m_arrivals[m_next], m_next);
        ++m_next;
        item->SetTimeStamp(Simulator::Now());
        m_disc->Enqueue(item);
        if (!m_busy)
        {
            Ready();
        }
        Schedule();
    }

    void Ready()
    {
        Ptr<QueueDiscItem> item = m_disc->Dequeue();
        m_busy = bool(item);
        if (m_busy)
        {
            Tell('>', item);
            const uint64_t bits = uint64_t(item->GetSize()) * 8;
            Simulator::Schedule(NanoSeconds(bits * 1000000000 / m_rate), &Link::Ready, this);
        }
        else if (m_next == m_arrivals.size())
        {
            // Some discs have timers that never end.
            Simulator::Stop();
        }
    }

    Ptr<QueueDisc> m_disc;
    uint64_t m_rate;
    std::vector<Arrival> m_arrivals;
    uint32_t m_next = 0;
    bool m_busy = false;
};

std::vector<Arrival>
Read(std::istream& in)
{
    std::vector<Arrival> arrivals;
    std::string line;
    uint64_t time = 0;
    while (std::getline(in, line))
    {
        std::istringstream words(line);
        uint64_t pause;
        std::string event;
        if (!(words >> pause >> event))
        {
            continue;
        }
        time += pause;
        if (event == "a")
        {
            uint32_t length = 0;
            uint32_t flow = 0;
            uint32_t trafficClass = 0;
            uint32_t ecn = 0;
            words >> length >> flow >> trafficClass >> ecn;
            arrivals.push_back({time, length, flow, ecn != 0});
        }
    }
    return arrivals;
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc < 3)
    {
        std::cerr << "usage: disc RATE TYPE [NAME=VALUE...]\n";
        return 2;
    }
    ObjectFactory factory(argv[2]);
    uint32_t quantum = 0;
    for (int i = 3; i < argc; ++i)
    {
        const std::string argument = argv[i];
        const size_t equals = argument.find('=');
        const std::string name = argument.substr(0, equals);
        const std::string value = argument.substr(equals + 1);
        if (name == "Quantum")
        {
            quantum = std::stoul(value);
        }
        else if (name.find("::") != std::string::npos)
        {
            Config::SetDefault(name, StringValue(value));
        }
        else
        {
            factory.Set(name, StringValue(value));
        }
    }
    Ptr<QueueDisc> disc = factory.Create<QueueDisc>();
    if (quantum > 0)
    {
        DynamicCast<FqCoDelQueueDisc>(disc)->SetQuantum(quantum);
    }
    disc->TraceConnectWithoutContext("DropBeforeEnqueue", MakeCallback(&Refused));
    disc->TraceConnectWithoutContext("DropAfterDequeue", MakeCallback(&Dropped));
    disc->Initialize();
    Link link(disc, std::stoull(argv[1]), Read(std::cin));
    link.Begin();
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
