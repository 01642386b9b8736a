-- Ephemeral state in Wireshark and tshark: instructions that packets carry for routers on their path.
--
-- Install: copy to the personal Lua plugins folder (Help, About, Folders), or `tshark -X lua_script:ephemeral.lua`.
-- Recognised by IP protocol 253, UDP port 5937 and IPv4 option 158. The preferences of the protocol change all three.

local ephemeral = Proto("ephemeral", "Ephemeral State")

local opcodes = {
    [0] = "NOP", [1] = "COUNT", [2] = "COMPARE", [3] = "COLLECT", [4] = "RCOLLECT", [5] = "RCHLD",
    [6] = "MARK", [7] = "TEST", [8] = "GET", [9] = "PUT", [10] = "SETFWD",
}
local operators = {
    [0] = "add", [1] = "min", [2] = "max", [3] = "and", [4] = "or", [5] = "xor", [6] = "first", [7] = "last",
    [8] = "lt", [9] = "le", [10] = "eq", [11] = "ne", [12] = "ge", [13] = "gt",
}
-- Bytes of the whole part, its checksum included.
local lengths = {
    [0] = 14, [1] = 26, [2] = 30, [3] = 38, [4] = 46, [5] = 30, [6] = 30, [7] = 22, [8] = 30, [9] = 30, [10] = 30,
}
-- COUNT has no operator: the same bits say which counts it forwards.
local comparisons = { [0] = "<", [1] = "<=" }
local with_operator = { [2] = true, [3] = true, [4] = true, [10] = true }

local f = {
    version = ProtoField.uint8("ephemeral.version", "Version", base.DEC, nil, 0xe0),
    input = ProtoField.bool("ephemeral.location.input", "At the port it comes in by", 8, nil, 0x10),
    central = ProtoField.bool("ephemeral.location.central", "In the middle", 8, nil, 0x08),
    output = ProtoField.bool("ephemeral.location.output", "At the port it leaves by", 8, nil, 0x04),
    error = ProtoField.bool("ephemeral.error", "Error", 8, nil, 0x02),
    piggybacked = ProtoField.bool("ephemeral.piggybacked", "Piggybacked", 8, nil, 0x01),
    opcode = ProtoField.uint8("ephemeral.opcode", "Instruction", base.DEC, opcodes),
    length = ProtoField.uint8("ephemeral.length", "Length", base.DEC),
    trace = ProtoField.bool("ephemeral.trace", "Trace", 8, nil, 0x80),
    sealed = ProtoField.bool("ephemeral.sealed", "Sealed", 8, nil, 0x40),
    operator = ProtoField.uint8("ephemeral.operator", "Operator", base.DEC, operators, 0x0f),
    comparison = ProtoField.uint8("ephemeral.comparison", "Forwards where the count compares so to the threshold", base.DEC,
        comparisons, 0x01),
    computation = ProtoField.uint64("ephemeral.computation", "Computation", base.HEX),
    tag = ProtoField.uint64("ephemeral.tag", "Tag", base.HEX),
    counter = ProtoField.uint64("ephemeral.counter", "Counter", base.HEX),
    result = ProtoField.uint64("ephemeral.result", "Result", base.HEX),
    child = ProtoField.uint64("ephemeral.child", "Child", base.HEX),
    value = ProtoField.uint64("ephemeral.value", "Value", base.DEC),
    threshold = ProtoField.uint32("ephemeral.threshold", "Threshold", base.DEC),
    seal = ProtoField.bytes("ephemeral.seal", "Seal"),
    checksum = ProtoField.uint16("ephemeral.checksum", "Checksum", base.HEX),
    next = ProtoField.uint8("ephemeral.next", "Carries", base.DEC),
}
ephemeral.fields = f

local e = {
    length = ProtoExpert.new("ephemeral.length.wrong", "Length is not that of the instruction", expert.group.MALFORMED,
        expert.severity.ERROR),
    opcode = ProtoExpert.new("ephemeral.opcode.unknown", "No built-in instruction", expert.group.UNDECODED,
        expert.severity.WARN),
    checksum = ProtoExpert.new("ephemeral.checksum.wrong", "Checksum is wrong", expert.group.CHECKSUM,
        expert.severity.ERROR),
    failed = ProtoExpert.new("ephemeral.failed", "A router could not execute it", expert.group.RESPONSE_CODE,
        expert.severity.NOTE),
}
ephemeral.experts = { e.length, e.opcode, e.checksum, e.failed }

ephemeral.prefs.protocol = Pref.uint("IP protocol", 253, "Protocol of IPv4 and next header of IPv6")
ephemeral.prefs.port = Pref.uint("UDP port", 5937, "Destination port of datagrams")
ephemeral.prefs.option = Pref.uint("IPv4 option", 158, "Type of the option that carries instructions")

-- Operands of each instruction behind its head: fields and their bytes, in order.
local operands = {
    [0] = {},
    [1] = { { f.counter, 8 }, { f.threshold, 4 } },
    [2] = { { f.tag, 8 }, { f.value, 8 } },
    [3] = { { f.counter, 8 }, { f.result, 8 }, { f.value, 8 } },
    [4] = { { f.counter, 8 }, { f.result, 8 }, { f.child, 8 }, { f.value, 8 } },
    [5] = { { f.counter, 8 }, { f.child, 8 } },
    [6] = { { f.tag, 8 }, { f.value, 8 } },
    [7] = { { f.tag, 8 } },
    [8] = { { f.tag, 8 }, { f.value, 8 } },
    [9] = { { f.tag, 8 }, { f.value, 8 } },
    [10] = { { f.tag, 8 }, { f.value, 8 } },
}

-- The ones' complement sum over all words of a part; 0xffff where its checksum is right (RFC 1071).
local function sum(tvb, length)
    local total = 0
    for at = 0, length - 2, 2 do
        total = total + tvb(at, 2):uint()
    end
    while total > 0xffff do
        total = (total % 0x10000) + math.floor(total / 0x10000)
    end
    return total
end

function ephemeral.dissector(tvb, pinfo, tree)
    if tvb:len() < 14 or tvb(0, 1):bitfield(0, 3) ~= 1 then
        return 0
    end
    local opcode, length = tvb(1, 1):uint(), tvb(2, 1):uint()
    local name = opcodes[opcode] or (opcode >= 128 and "REGISTERED" or "unknown")
    local shown = math.min(math.max(length, 14), tvb:len())
    local part = tree:add(ephemeral, tvb(0, shown))
    part:append_text(", " .. name)
    pinfo.cols.protocol = "Ephemeral"
    for _, field in ipairs({ f.version, f.input, f.central, f.output, f.error, f.piggybacked }) do
        part:add(field, tvb(0, 1))
    end
    local instruction = part:add(f.opcode, tvb(1, 1))
    local said = part:add(f.length, tvb(2, 1))
    part:add(f.trace, tvb(3, 1))
    part:add(f.sealed, tvb(3, 1))
    if opcode == 1 then
        part:add(f.comparison, tvb(3, 1))
        name = name .. " " .. comparisons[tvb(3, 1):bitfield(7, 1)]
    elseif with_operator[opcode] then
        part:add(f.operator, tvb(3, 1))
        name = name .. " " .. (operators[tvb(3, 1):bitfield(4, 4)] or "?")
    end
    part:add(f.computation, tvb(4, 8))
    local failed = tvb(0, 1):bitfield(6, 1) == 1
    pinfo.cols.info = name .. (failed and " [not executed]" or "")
    if failed then
        part:add_proto_expert_info(e.failed)
    end
    if opcode >= 128 and length >= 22 and length <= 62 and tvb:len() >= length then
        -- An operator's instruction: as many tags as fit, and a value.
        part:add(f.operator, tvb(3, 1))
        local seal = tvb(3, 1):bitfield(1, 1) == 1 and 8 or 0
        local at = 12
        while at + 8 + 8 + seal + 2 <= length do
            part:add(f.tag, tvb(at, 8))
            at = at + 8
        end
        part:add(f.value, tvb(at, 8))
        if seal > 0 then
            part:add(f.seal, tvb(at + 8, 8))
        end
        local checksum = part:add(f.checksum, tvb(length - 2, 2))
        if sum(tvb, length) ~= 0xffff then
            checksum:add_proto_expert_info(e.checksum)
        end
        return tvb:len()
    end
    if not operands[opcode] then
        instruction:add_proto_expert_info(e.opcode)
        return tvb:len()
    end
    -- A sealed part ends with 8 bytes that only the owner of the operator's key can verify.
    local sealed = (tvb(3, 1):bitfield(1, 1) == 1 and length == lengths[opcode] + 8) and 8 or 0
    if length ~= lengths[opcode] + sealed or tvb:len() < length then
        said:add_proto_expert_info(e.length)
        return tvb:len()
    end
    local at = 12
    for _, operand in ipairs(operands[opcode]) do
        part:add(operand[1], tvb(at, operand[2]))
        at = at + operand[2]
    end
    if sealed > 0 then
        part:add(f.seal, tvb(at, sealed))
        at = at + sealed
        pinfo.cols.info = name .. " [sealed]" .. (failed and " [not executed]" or "")
    end
    local checksum = part:add(f.checksum, tvb(at, 2))
    if sum(tvb, length) ~= 0xffff then
        checksum:add_proto_expert_info(e.checksum)
    end
    -- Another protocol's packet follows the part: one byte has its protocol number, one is padding.
    if tvb(0, 1):bitfield(7, 1) == 1 and tvb:len() >= length + 2 then
        local carries = tvb(length, 1):uint()
        part:add(f.next, tvb(length, 1))
        local inner = DissectorTable.get("ip.proto"):get_dissector(carries)
        if inner and tvb:len() > length + 2 then
            local info = tostring(pinfo.cols.info)
            -- An error in the inner dissector must not stop this one.
            pcall(inner.call, inner, tvb(length + 2):tvb(), pinfo, tree)
            pinfo.cols.protocol = "Ephemeral"
            pinfo.cols.info = info .. ", carries protocol " .. carries
        end
    end
    return tvb:len()
end

-- A part in an option of the IPv4 header, behind type and length. The packet's own payload follows the header.
local option = Proto("ephemeral_option", "Ephemeral State, in an IPv4 option")

function option.dissector(tvb, pinfo, tree)
    if tvb:len() < 2 or ephemeral.dissector(tvb(2):tvb(), pinfo, tree) == 0 then
        return 0
    end
    pinfo.cols.info = tostring(pinfo.cols.info) .. ", in an option; "
    pinfo.cols.info:fence()
    return tvb:len()
end

local ways = {
    { table = DissectorTable.get("ip.proto"), by = "protocol", dissector = ephemeral },
    { table = DissectorTable.get("udp.port"), by = "port", dissector = ephemeral },
    { table = DissectorTable.get("ip.option"), by = "option", dissector = option },
}
for _, way in ipairs(ways) do
    way.known = ephemeral.prefs[way.by]
    way.table:add(way.known, way.dissector)
end

function ephemeral.prefs_changed()
    for _, way in ipairs(ways) do
        way.table:remove(way.known, way.dissector)
        way.known = ephemeral.prefs[way.by]
        way.table:add(way.known, way.dissector)
    end
end
