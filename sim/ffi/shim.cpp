// Implements shim.h for any model. The class of the model is generated.
#include "model.hpp"

#include "verilated_vcd_c.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>

namespace {

// Where Verilator believes to write its file. Format, window and disk are the business of the Rust side.
class Memory final : public VerilatedVcdFile {
public:
    std::string text;
    bool lost = false;

    bool open(const std::string&) override { return true; }
    void close() override {}
    ssize_t write(const char* data, ssize_t length) override {
        // Nothing is thrown into Verilator, which would write the same again, beyond its buffer.
        try {
            if (!lost) text.append(data, static_cast<size_t>(length));
        } catch (const std::bad_alloc&) {
            lost = true;
        }
        return length;
    }
};

}  // namespace

struct NdpTrace {
    Memory memory;
    VerilatedVcdC vcd{&memory};
};

NdpModel* ndp_open(const NdpOpenOptions* options) try {
    std::unique_ptr<NdpModel> model(ndp_create(*options));
    for (const NdpPort& port : model->ports) {
        const size_t count = port.width > 64 ? (port.width + 31) / 32 : 1;
        if (!port.output) std::memset(port.data, 0, count * port.bytes);
    }
    // The first evaluation also records the level of the clock: without it the first edge would be missed.
    model->eval();
    // Verilator remembers the last context of each thread by address; this one may be closed on another thread.
    Verilated::threadContextp(Verilated::defaultContextp());
    return model.release();
} catch (const std::bad_alloc&) {
    Verilated::threadContextp(Verilated::defaultContextp());
    return nullptr;
}

void ndp_close(NdpModel* model) {
    if (model->tracer) model->tracer->vcd.close();
    NdpTrace* const tracer = model->tracer;
    delete model;
    delete tracer;
}

uint32_t ndp_port_count(const NdpModel* model) { return static_cast<uint32_t>(model->ports.size()); }

const NdpPort* ndp_ports(const NdpModel* model) { return model->ports.data(); }

void ndp_eval(NdpModel* model) { model->eval(); }

void ndp_tick(NdpModel* model, uint64_t cycles) { model->tick(cycles); }

void ndp_set_clock(NdpModel* model, bool dram, bool level) { model->set_clock(dram, level); }

const uint64_t* ndp_failures(const NdpModel* model) { return &model->failures; }

const char* ndp_failure(const NdpModel* model) { return model->failure.c_str(); }

bool ndp_trace_begin(NdpModel* model, uint32_t depth) try {
    model->tracer = new NdpTrace;
    VerilatedVcdC& vcd = model->tracer->vcd;
    vcd.set_time_unit("1ps");
    vcd.set_time_resolution("1ps");
    // Verilator puts a scope of its own, TOP, above the top module.
    if (depth != 0) vcd.dumpvars(static_cast<int>(depth) + 1, "TOP");
    model->trace(&vcd);
    vcd.open("memory");
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

void ndp_trace_dump(NdpModel* model, uint64_t time_ps) { model->tracer->vcd.dump(time_ps); }

void ndp_trace_end(NdpModel* model) { model->tracer->vcd.close(); }

const uint8_t* ndp_trace_data(const NdpModel* model, size_t* length) {
    const std::string& text = model->tracer->memory.text;
    if (model->tracer->memory.lost) return nullptr;
    *length = text.size();
    return reinterpret_cast<const uint8_t*>(text.data());
}

void ndp_trace_clear(NdpModel* model) { model->tracer->memory.text.clear(); }

const NdpShare* ndp_profile(NdpModel* model, uint32_t* count) try {
    model->profile(model->shares);
    *count = static_cast<uint32_t>(model->shares.size());
    return model->shares.data();
} catch (const std::bad_alloc&) {
    *count = 0;
    return nullptr;
}
