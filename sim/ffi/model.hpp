// What every model looks like to shim.cpp; ndp-verilate generates one subclass per model and variant.
#ifndef NDP_MODEL_HPP
#define NDP_MODEL_HPP

#include "shim.h"
#include "verilated.h"

#include <vector>

class VerilatedVcdC;
struct NdpTrace;

struct NdpModel {
    VerilatedContext context;
    std::vector<NdpPort> ports;
    NdpTrace* tracer = nullptr;
    std::vector<NdpShare> shares;

    explicit NdpModel(const NdpOpenOptions& options) {
        context.traceEverOn(options.waves);
        context.randReset(options.random ? 2 : 0);
        if (options.random) context.randSeed(options.seed);
    }
    NdpModel(const NdpModel&) = delete;
    NdpModel& operator=(const NdpModel&) = delete;
    virtual ~NdpModel() = default;

    virtual void eval() = 0;
    /* An edge of a clock, if the model has it. */
    virtual void set_clock(bool dram, bool level) = 0;
    virtual void tick(uint64_t cycles) = 0;
    virtual void trace(VerilatedVcdC* sink) = 0;
    /* Where the time went; nothing unless the model was built for that. */
    virtual void profile(std::vector<NdpShare>& rows) { rows.clear(); }
};

/* A new instance; generated. */
NdpModel* ndp_create(const NdpOpenOptions& options);

#endif
