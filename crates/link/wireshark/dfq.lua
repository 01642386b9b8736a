-- The quantum-multiplexed wire of Switchpath in Wireshark and tshark: hellos, flow maps, and batches with quanta of several flows.
--
-- Install: copy to the personal Lua plugins folder (Help, About, Folders), or `tshark -X lua_script:dfq.lua`.
-- Recognised by Ethertype 0x88b5. A capture has to begin before the session: the lengths of most quanta follow from hellos and maps.

local dfq = Proto("dfq", "Switchpath DFQ Wire")

local VERSION = 1
local kinds = { [1] = "Hello", [2] = "Map", [3] = "Map answer", [4] = "Batch" }

local f = {
    version = ProtoField.uint8("dfq.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("dfq.kind", "Kind", base.DEC, kinds, 0x0f),
    session = ProtoField.uint32("dfq.session", "Session", base.HEX),
    heard = ProtoField.uint32("dfq.heard", "Session heard", base.HEX),
    refuses = ProtoField.bool("dfq.refuses", "Refuses the terms", 8, nil, 0x01),
    leaves = ProtoField.bool("dfq.leaves", "Closes its wire", 8, nil, 0x02),
    bitmap_octets = ProtoField.uint8("dfq.bitmap_octets", "Octets of the bitmap", base.DEC),
    flows = ProtoField.uint16("dfq.flows", "Flows", base.DEC),
    frame = ProtoField.uint16("dfq.longest", "Longest message", base.DEC),
    quantum = ProtoField.uint16("dfq.quantum", "Quantum", base.DEC),
    cycle = ProtoField.uint32("dfq.cycle", "Cycle in nanoseconds", base.DEC),
    count = ProtoField.uint16("dfq.entries", "Entries", base.DEC),
    flow = ProtoField.uint16("dfq.flow", "Flow", base.DEC),
    share = ProtoField.uint32("dfq.share", "Share of the sender", base.DEC),
    sequence = ProtoField.uint32("dfq.sequence", "Sequence number", base.DEC),
    first = ProtoField.uint16("dfq.first", "First flow", base.DEC),
    bitmap = ProtoField.bytes("dfq.bitmap", "Bitmap"),
    length = ProtoField.uint16("dfq.length", "Length", base.DEC),
    back = ProtoField.uint16("dfq.back", "Batches since the last part", base.DEC),
    remaining = ProtoField.uint16("dfq.remaining", "Bytes until the next packet", base.DEC),
    bytes = ProtoField.bytes("dfq.bytes", "Quantum"),
    packet = ProtoField.uint16("dfq.packet", "Packet of", base.DEC),
}
dfq.fields = f

local e = {
    short = ProtoExpert.new("dfq.short", "The message is truncated", expert.group.MALFORMED, expert.severity.ERROR),
    unknown = ProtoExpert.new("dfq.flow.unknown", "The quantum of the flow is not in the capture", expert.group.UNDECODED,
        expert.severity.WARN),
    version = ProtoExpert.new("dfq.version.unknown", "Another version", expert.group.UNDECODED, expert.severity.WARN),
    lost = ProtoExpert.new("dfq.lost", "Batches are missing before this one", expert.group.SEQUENCE, expert.severity.WARN),
}
dfq.experts = { e.short, e.unknown, e.version, e.lost }

-- Of each session: the quanta of its flows, and the sequence number that each frame should have.
local quanta, expected, gaps = {}, {}, {}

function dfq.init()
    quanta, expected, gaps = {}, {}, {}
end

-- The positions of the bits that are set.
local function positions(buffer, at, octets)
    local list = {}
    for bit = 0, octets * 8 - 1 do
        if buffer(at + math.floor(bit / 8), 1):bitfield(bit % 8, 1) == 1 then
            list[#list + 1] = bit
        end
    end
    return list
end

local function set_of(list)
    local set = {}
    for _, value in ipairs(list) do
        set[value] = true
    end
    return set
end

local function hello(buffer, tree, session)
    if buffer:len() < 22 then
        tree:add_proto_expert_info(e.short)
        return "Hello"
    end
    tree:add(f.heard, buffer(6, 4))
    tree:add(f.refuses, buffer(10, 1))
    tree:add(f.leaves, buffer(10, 1))
    tree:add(f.bitmap_octets, buffer(11, 1))
    tree:add(f.flows, buffer(12, 2))
    tree:add(f.frame, buffer(14, 2))
    tree:add(f.quantum, buffer(16, 2))
    tree:add(f.cycle, buffer(18, 4))
    quanta[session][0] = buffer(16, 2):uint()
    local heard = buffer(6, 4):uint()
    return heard == 0 and "Hello" or string.format("Hello, hears %08x", heard)
end

local function map(buffer, tree, session, answers)
    if buffer:len() < 8 or buffer:len() < 8 + 8 * buffer(6, 2):uint() then
        tree:add_proto_expert_info(e.short)
        return "Map"
    end
    local count = buffer(6, 2):uint()
    tree:add(f.count, buffer(6, 2))
    for entry = 0, count - 1 do
        local at = 8 + 8 * entry
        local flow = buffer(at, 2):uint()
        local item = tree:add(dfq, buffer(at, 8), string.format("Flow %d", flow))
        item:add(f.flow, buffer(at, 2))
        item:add(f.share, buffer(at + 2, 4))
        item:add(f.quantum, buffer(at + 6, 2))
        if not answers then
            quanta[session][flow] = buffer(at + 6, 2):uint()
        end
    end
    return string.format("%s of %d flows", answers and "Answer to a map" or "Map", count)
end

-- The packets that begin in a quantum, behind `skipped` bytes of an earlier one.
local function packets(buffer, tree, at, length, skipped)
    local place, last = at + skipped, at + length
    while place + 2 <= last do
        local size = buffer(place, 2):uint()
        if size < 14 then
            return
        end
        local item = tree:add(f.packet, buffer(place, 2))
        if place + 2 + size > last then
            item:append_text(string.format(" bytes, %d of them here", last - place - 2))
        else
            item:append_text(" bytes")
        end
        place = place + 2 + size
    end
end

local function check_sequence(number, session, sequence, tree)
    local wanted = expected[session]
    if gaps[number] == nil then
        gaps[number] = wanted ~= nil and sequence ~= wanted
        expected[session] = (sequence + 1) % 4294967296
    end
    if gaps[number] then
        tree:add_proto_expert_info(e.lost)
    end
end

local function batch(buffer, pinfo, tree, session)
    if buffer:len() < 13 or buffer:len() < 13 + buffer(12, 1):uint() then
        tree:add_proto_expert_info(e.short)
        return "Batch"
    end
    local sequence, first, octets = buffer(6, 4):uint(), buffer(10, 2):uint(), buffer(12, 1):uint()
    check_sequence(pinfo.number, session, sequence, tree:add(f.sequence, buffer(6, 4)))
    tree:add(f.first, buffer(10, 2))
    tree:add(f.bitmap_octets, buffer(12, 1))
    tree:add(f.bitmap, buffer(13, octets))
    local flows = positions(buffer, 13, octets)
    local small, at = math.ceil(#flows / 8), 13 + octets
    if buffer:len() < at + 2 * small then
        tree:add_proto_expert_info(e.short)
        return "Batch"
    end
    local own, within = set_of(positions(buffer, at, small)), set_of(positions(buffer, at + small, small))
    local lengths, places = at + 2 * small, at + 2 * small
    for place in pairs(own) do
        places = place < #flows and places + 2 or places
    end
    local data = places
    for place in pairs(within) do
        data = place < #flows and data + 4 or data
    end
    for place, offset in ipairs(flows) do
        local flow = first + offset
        local length = quanta[session][flow]
        local header = lengths
        if own[place - 1] then
            length = buffer:len() >= lengths + 2 and buffer(lengths, 2):uint() or nil
            lengths = lengths + 2
        end
        if length == nil then
            tree:add_proto_expert_info(e.unknown)
            break
        end
        if buffer:len() < data + length then
            tree:add_proto_expert_info(e.short)
            break
        end
        local item = tree:add(dfq, buffer(data, length), string.format("Quantum of flow %d, %d bytes", flow, length))
        item:add(f.flow, flow)
        if own[place - 1] then
            item:add(f.length, buffer(header, 2))
        end
        local skipped = 0
        if within[place - 1] then
            item:add(f.back, buffer(places, 2))
            item:add(f.remaining, buffer(places + 2, 2))
            skipped = math.min(buffer(places + 2, 2):uint(), length)
            places = places + 4
        end
        item:add(f.bytes, buffer(data, length))
        packets(buffer, item, data, length, skipped)
        data = data + length
    end
    return string.format("Batch %d, %d flows", sequence, #flows)
end

function dfq.dissector(buffer, pinfo, root)
    if buffer:len() < 6 then
        return 0
    end
    pinfo.cols.protocol = "DFQ"
    local tree = root:add(dfq, buffer())
    local version, kind = buffer(0, 1):bitfield(0, 4), buffer(0, 1):bitfield(4, 4)
    tree:add(f.version, buffer(0, 1))
    if version ~= VERSION then
        tree:add_proto_expert_info(e.version)
        pinfo.cols.info = string.format("Version %d", version)
        return buffer:len()
    end
    tree:add(f.kind, buffer(0, 1))
    tree:add(f.session, buffer(2, 4))
    local session = buffer(2, 4):uint()
    quanta[session] = quanta[session] or {}
    local info = kinds[kind] or string.format("Kind %d", kind)
    if kind == 1 then
        info = hello(buffer, tree, session)
    elseif kind == 2 or kind == 3 then
        info = map(buffer, tree, session, kind == 3)
    elseif kind == 4 then
        info = batch(buffer, pinfo, tree, session)
    end
    pinfo.cols.info = info
    return buffer:len()
end

DissectorTable.get("ethertype"):add(0x88b5, dfq)
