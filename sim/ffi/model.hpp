// What every model looks like to shim.cpp; ndp-verilate generates one subclass per model and variant.
#ifndef NDP_MODEL_HPP
#define NDP_MODEL_HPP

#include "shim.h"
#include "verilated.h"

#include <new>
#include <string>
#include <vector>

class VerilatedVcdC;
struct NdpTrace;

/* Random contents follow from the seed and from where they are, so that a native model and a Verilated one can begin with the same. Names of
 * instances from the top down, each with a dot behind it, and of a register or memory: FNV-1a. */
inline uint64_t ndp_place(uint64_t above, const char* name) {
    for (; *name; ++name) above = (above ^ static_cast<unsigned char>(*name)) * 0x100000001b3u;
    return above;
}

/* A word of what is there, the lowest bits first, those of a memory one behind the other: SplitMix64. */
inline uint32_t ndp_contents(uint64_t place, uint32_t at) {
    uint64_t z = place + (uint64_t{at} + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(z ^ (z >> 31));
}

struct NdpModel {
    VerilatedContext context;
    std::vector<NdpPort> ports;
    NdpTrace* tracer = nullptr;
    std::vector<NdpShare> shares;
    /* Properties that did not hold, each edge counted, and the first of them. */
    uint64_t failures = 0;
    std::string failure;

    explicit NdpModel(const NdpOpenOptions& options) {
        context.traceEverOn(options.waves);
        context.randReset(options.random ? 2 : 0);
        if (options.random) context.randSeed(options.seed);
        const std::string mutant = "+mutant=" + std::to_string(options.mutant);
        const char* arguments[] = {"model", mutant.c_str()};
        if (options.mutant) context.commandArgs(2, arguments);
    }
    NdpModel(const NdpModel&) = delete;
    NdpModel& operator=(const NdpModel&) = delete;
    virtual ~NdpModel() = default;

    virtual void eval() = 0;
    /* An edge of a clock, if the model has it. */
    virtual void set_clock(bool dram, bool level) = 0;
    virtual void tick(uint64_t cycles) = 0;
    virtual void trace(VerilatedVcdC* sink) = 0;
    /* Takes down that a property did not hold: the instances from the top down, each with a dot behind it, and its name with the reason. If
     * memory is exhausted it is counted without its name. */
    void fail(const char* instance, const char* property) try {
        if (failures++ == 0) failure = std::string(instance) + property;
    } catch (const std::bad_alloc&) {
    }
    /* Where the time went; nothing unless the model was built for that. */
    virtual void profile(std::vector<NdpShare>& rows) { rows.clear(); }
};

/* A new instance; generated. */
NdpModel* ndp_create(const NdpOpenOptions& options);

#endif
