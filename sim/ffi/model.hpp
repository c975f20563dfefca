// What every Verilated model looks like to shim.cpp; build.rs generates one subclass per design and variant.
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
    CData* clock = nullptr;
    CData* dram_clock = nullptr;
    NdpTrace* tracer = nullptr;

    explicit NdpModel(const NdpOpenOptions& options) {
        context.traceEverOn(options.waves);
        context.randReset(options.random ? 2 : 0);
        if (options.random) context.randSeed(options.seed);
    }
    NdpModel(const NdpModel&) = delete;
    NdpModel& operator=(const NdpModel&) = delete;
    virtual ~NdpModel() = default;

    virtual void eval() = 0;
    virtual void tick(uint64_t cycles) = 0;
    virtual void trace(VerilatedVcdC* sink) = 0;
};

struct NdpFactory {
    NdpDesign design;
    NdpModel* (*fast)(const NdpOpenOptions&);
    NdpModel* (*waves)(const NdpOpenOptions&);
};

extern const NdpFactory ndp_factories[];
extern const uint32_t ndp_factory_count;

#endif
