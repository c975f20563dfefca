"""Random bursts, errors and a program, driven by the AXI extension of cocotb against the emitted core.

The expected bytes are those of a bytearray here, and of examples/icarus for the program. The seed is that of cocotb (COCOTB_RANDOM_SEED).
"""

import itertools
import logging
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiResp

ICARUS = Path(__file__).resolve().parent.parent / "icarus"
LINE = 64
# What the test uses of the DRAM; the ranks hold 512 KiB.
REGION = 32 * 1024
OPERATIONS = int(os.environ.get("NDP_AXI_OPERATIONS", "400"))


def pauses(share):
    """Whether a channel stands still in a cycle."""
    while True:
        yield random.random() < share


async def start(dut, share=0.0):
    """The clocks, a reset, and a manager whose five channels pause in so many cycles."""
    cocotb.start_soon(Clock(dut.clk, 1000, unit="ps").start())
    cocotb.start_soon(Clock(dut.dram_clk, 625, unit="ps").start())
    dut.rst_n.value = 0
    # A line for each burst is too much.
    logging.getLogger("cocotb.harness.s_axi").setLevel(logging.WARNING)
    master = AxiMaster(AxiBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst_n, reset_active_level=False)
    await ClockCycles(dut.clk, 10)
    dut.rst_n.value = 1
    await RisingEdge(dut.clk)
    if share:
        for channel in (
            master.write_if.aw_channel,
            master.write_if.w_channel,
            master.write_if.b_channel,
            master.read_if.ar_channel,
            master.read_if.r_channel,
        ):
            channel.set_pause_generator(pauses(share))
    return master


async def fill(master):
    """Random bytes everywhere, as the ranks begin with X."""
    data = bytearray(random.randbytes(REGION))
    await master.write(0, bytes(data))
    return data


@cocotb.test()
@cocotb.parametrize(share=[0.0, 0.4, 0.8])
async def random_traffic(dut, share):
    """Reads and writes of any length, address, size and ID, four at a time, each in its own part of the region."""
    master = await start(dut, share)
    data = await fill(master)
    most = (len(dut.s_axi_wdata) // 8).bit_length() - 1
    counts = {"reads": 0, "writes": 0, "bytes": 0}
    workers = 4

    async def work(worker):
        part = REGION // workers
        for _ in range(OPERATIONS // workers):
            size = random.choice([most, most, random.randint(0, most)])
            length = random.choice([random.randint(1, 16), random.randint(1, 300), random.randint(1, 1024)])
            length = min(length, 256 << size)
            address = worker * part + random.randrange(part - length)
            arguments = {"size": size, "burst": AxiBurstType.INCR}
            if random.random() < 0.5:
                new = random.randbytes(length)
                data[address : address + length] = new
                answer = await master.write(address, new, **arguments)
                counts["writes"] += 1
            else:
                answer = await master.read(address, length, **arguments)
                assert answer.data == bytes(data[address : address + length]), f"{address:#x}, {length} bytes"
                counts["reads"] += 1
            assert answer.resp == AxiResp.OKAY, answer
            counts["bytes"] += length

    begin = get_sim_time("ns")
    tasks = [cocotb.start_soon(work(worker)) for worker in range(workers)]
    for task in tasks:
        await task
    cycles = get_sim_time("ns") - begin
    # At last all of it, as large bursts.
    answer = await master.read(0, REGION)
    assert answer.data == bytes(data)
    assert int(dut.broken.value) == 0
    dut._log.info("share %s: %s, %d cycles, 0 mismatches, 0 broken rules", share, counts, cycles)


@cocotb.test()
async def errors_are_answered(dut):
    """DECERR where nothing is, SLVERR for a register that is written in part; no byte changes."""
    master = await start(dut)
    registers = 1 << (len(dut.s_axi_awaddr) - 1)
    data = await fill(master)
    outside = registers + 256 * LINE
    assert (await master.read(outside, 8)).resp == AxiResp.DECERR
    assert (await master.write(outside + 4096, bytes(100))).resp == AxiResp.DECERR
    assert (await master.write(registers + 8, bytes(8))).resp == AxiResp.SLVERR
    assert (await master.read(registers, LINE)).resp == AxiResp.OKAY
    assert (await master.read(registers + 200 * LINE, LINE)).data == bytes(LINE)
    assert (await master.read(0, REGION)).data == bytes(data)


def lines(name):
    """Address and bytes of each line of a file of the bench."""
    for text in (ICARUS / name).read_text().split():
        yield int(text[:8], 16) * LINE, bytes.fromhex(text[8:])[::-1]


@cocotb.test()
async def a_program_runs(dut):
    """Data, instructions, status and results of the bench for strangers, all of it by way of AXI."""
    master = await start(dut, 0.3)
    registers = 1 << (len(dut.s_axi_awaddr) - 1)
    for address, line in lines("data.hex"):
        await master.write(address, line)
    code = b"".join(bytes.fromhex(word)[::-1] for word in (ICARUS / "program.hex").read_text().split())
    code += bytes(-len(code) % LINE)
    for at in range(0, len(code), LINE):
        assert (await master.write(registers, code[at : at + LINE])).resp == AxiResp.OKAY
    for polls in itertools.count():
        status = (await master.read(registers, LINE)).data
        words = [int.from_bytes(status[at : at + 4], "little") for at in range(0, LINE, 4)]
        if words[8] == 1:
            break
        assert polls < 5000, words
    assert words[4] == 0, f"{words[4]} malformed instructions"
    compared = 0
    for address, line in lines("expected.hex"):
        assert (await master.read(address, LINE)).data == line, f"{address:#x}"
        compared += 1
    assert compared == 6 and int(dut.broken.value) == 0
