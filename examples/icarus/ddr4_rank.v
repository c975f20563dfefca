// One DDR4 rank with a data bus of 64 bits, for simulation: the commands that the core's controllers give, the data, and a check
// of every timing rule of docs/configuration.md. It is written from the documents and knows nothing of the hardware.
//
// It is initialised from the start, with all banks closed, and stays so: a reset of the core is nothing that it sees.
// What was not written is X. Two bank groups of four banks. Only the lowest 2^STORED bursts have a place; an access to another one is an error.
`timescale 1ns/100fs

module ddr4_rank #(
    parameter RANK = 0,
    parameter STORED = 12
) (
    input wire clk_i,
    input wire cs_n_i,
    input wire act_n_i,
    input wire bg_i,
    input wire [1:0] ba_i,
    input wire [17:0] a_i,
    // What the controller drives, and whether it does: two transfers per clock, the earlier one in the lower half.
    input wire [127:0] dq_i,
    input wire dq_oe_i,
    // What the rank drives. X where it drives nothing, so that a sample in the wrong clock is noticed.
    output reg [127:0] dq_o
);
    `include "params.vh"

    // Clocks of a burst; a time that is long ago.
    localparam T_BL = 4;
    localparam LONG_AGO = -1000000;
    // From a WR to the end of its data.
    localparam WRITTEN = DRAM_T_CWL + T_BL;

    reg [511:0] bursts [0:(1 << STORED) - 1];

    // Clock that ends with the next edge, and what is on the bus in clocks to come, by their low bits.
    integer now;
    reg reads_due [0:127];
    reg [127:0] read_data [0:127];
    reg writes_due [0:127];
    reg [STORED - 1:0] write_burst [0:127];
    reg [1:0] write_part [0:127];

    // Banks are numbered {ba, bg}, so the lowest bit is the group.
    reg open [0:7];
    reg [16:0] row [0:7];
    integer act_at [0:7], read_at [0:7], write_at [0:7], precharge_at [0:7];
    integer refresh_at, refreshes, acts;
    integer last_act [0:3];
    integer errors, commands;

    integer i, b;
    reg [2:0] bank;
    reg [16 + 2 + 7 + 1:0] burst;

    task broken(input [8 * 24 - 1:0] rule, input integer since, input integer least);
        begin
            errors = errors + 1;
            if (errors <= 10)
                $display("rank %0d, clock %0d: %0s: %0d clocks, at least %0d expected", RANK, now, rule, now - since, least);
        end
    endtask

    task distance(input [8 * 24 - 1:0] rule, input integer since, input integer least);
        if (now - since < least) broken(rule, since, least);
    endtask

    task wrong(input [8 * 40 - 1:0] what);
        begin
            errors = errors + 1;
            if (errors <= 10) $display("rank %0d, clock %0d: %0s", RANK, now, what);
        end
    endtask

    task activate;
        begin
            if (open[bank]) wrong("ACT of an open bank");
            if (a_i[17] || (a_i[16:0] >> DRAM_ROW_BITS) != 0) wrong("ACT of a row that does not exist");
            distance("tRC", act_at[bank], DRAM_T_RC);
            distance("tRP", precharge_at[bank], DRAM_T_RP);
            for (b = 0; b < 8; b = b + 1)
                if (b[0] == bg_i) distance("tRRD_L", act_at[b], DRAM_T_RRD_L);
                else distance("tRRD_S", act_at[b], DRAM_T_RRD_S);
            // The fourth one before this one.
            distance("tFAW", last_act[acts & 3], DRAM_T_FAW);
            last_act[acts & 3] = now;
            acts = acts + 1;
            act_at[bank] = now;
            open[bank] = 1;
            row[bank] = a_i[16:0];
        end
    endtask

    // RD and WR alike: the bank, the column, and where the burst is stored.
    task access;
        begin
            if (!open[bank]) wrong("RD or WR of a closed bank");
            if (a_i[2:0] != 0) wrong("a burst that does not begin at its first column");
            if (a_i[10]) wrong("auto precharge, which the core never uses");
            distance("tRCD", act_at[bank], DRAM_T_RCD);
            burst = {row[bank], ba_i, a_i[9:3], bg_i};
            if ((burst >> STORED) != 0) wrong("access beyond what this model stores");
        end
    endtask

    task read;
        begin
            access;
            for (b = 0; b < 8; b = b + 1)
                if (b[0] == bg_i) begin
                    distance("tCCD_L", read_at[b], DRAM_T_CCD_L);
                    distance("tWTR_L", write_at[b], WRITTEN + DRAM_T_WTR_L);
                end else begin
                    distance("tCCD_S", read_at[b], DRAM_T_CCD_S);
                    distance("tWTR_S", write_at[b], WRITTEN + DRAM_T_WTR_S);
                end
            read_at[bank] = now;
            for (i = 0; i < T_BL; i = i + 1) begin
                reads_due[(now + DRAM_T_CL + i) & 127] = 1;
                read_data[(now + DRAM_T_CL + i) & 127] = bursts[burst[STORED - 1:0]][i * 128 +: 128];
            end
        end
    endtask

    task write;
        begin
            access;
            for (b = 0; b < 8; b = b + 1) begin
                if (b[0] == bg_i) distance("tCCD_L", write_at[b], DRAM_T_CCD_L);
                else distance("tCCD_S", write_at[b], DRAM_T_CCD_S);
                distance("RD to WR", read_at[b], DRAM_T_RTW);
            end
            write_at[bank] = now;
            for (i = 0; i < T_BL; i = i + 1) begin
                writes_due[(now + DRAM_T_CWL + i) & 127] = 1;
                write_burst[(now + DRAM_T_CWL + i) & 127] = burst[STORED - 1:0];
                write_part[(now + DRAM_T_CWL + i) & 127] = i;
            end
        end
    endtask

    // PRE of a closed bank is allowed and changes nothing but the time from which tRP counts.
    task precharge(input integer which);
        begin
            if (open[which]) begin
                distance("tRAS", act_at[which], DRAM_T_RAS);
                distance("tRTP", read_at[which], DRAM_T_RTP);
                distance("tWR", write_at[which], WRITTEN + DRAM_T_WR);
            end
            open[which] = 0;
            precharge_at[which] = now;
        end
    endtask

    task refresh;
        begin
            for (b = 0; b < 8; b = b + 1) begin
                if (open[b]) wrong("REF with an open bank");
                distance("tRP", precharge_at[b], DRAM_T_RP);
            end
            refresh_at = now;
            refreshes = refreshes + 1;
        end
    endtask

    // At most eight refreshes may be owed.
    task finish;
        if (now / DRAM_T_REFI > refreshes + 8) wrong("refreshes are missing");
    endtask

    initial begin
        now = 0;
        errors = 0;
        if (DRAM_BANK_GROUPS != 2) wrong("this model has two bank groups");
        commands = 0;
        refreshes = 0;
        acts = 0;
        refresh_at = LONG_AGO;
        for (i = 0; i < 4; i = i + 1) last_act[i] = LONG_AGO;
        for (i = 0; i < 8; i = i + 1) begin
            open[i] = 0;
            act_at[i] = LONG_AGO;
            read_at[i] = LONG_AGO;
            write_at[i] = LONG_AGO;
            precharge_at[i] = LONG_AGO;
        end
        for (i = 0; i < 128; i = i + 1) begin
            reads_due[i] = 0;
            writes_due[i] = 0;
        end
    end

    // Pins have been X until the core's first clocks in reset; no chip select is no command.
    always @(posedge clk_i) begin
        if (cs_n_i === 1'b0) begin
            commands = commands + 1;
            bank = {ba_i, bg_i};
            distance("tRFC", refresh_at, DRAM_T_RFC);
            if (!act_n_i) activate;
            else
                case (a_i[16:14]) // RAS_n, CAS_n, WE_n
                    3'b101: read;
                    3'b100: write;
                    3'b010:
                        if (a_i[10]) for (b = 0; b < 8; b = b + 1) precharge(b);
                        else precharge(bank);
                    3'b001: refresh;
                    default: wrong("unknown command");
                endcase
        end
        if (writes_due[now & 127]) begin
            if (dq_oe_i !== 1'b1) wrong("data of a WR are missing");
            bursts[write_burst[now & 127]][write_part[now & 127] * 128 +: 128] = dq_i;
            if (^dq_i === 1'bx) wrong("data of a WR are unknown");
            if (reads_due[now & 127]) wrong("two bursts on the data bus");
            writes_due[now & 127] = 0;
        end else if (dq_oe_i === 1'b1) wrong("data that no WR needs");
        reads_due[now & 127] = 0;
        now = now + 1;
        // What the core samples with the next edge.
        dq_o <= reads_due[now & 127] ? read_data[now & 127] : 128'bx;
    end
endmodule
