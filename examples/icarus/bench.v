// A self-checking bench of the NDP core of the configuration `tiny`, and with ONE_RANK of a core with one rank and no link: it writes data into DRAM by way of the core, sends a program,
// waits for its signal, reads the results back and compares them.
//
// All of it is in docs/integration.md. The files *.hex are what rust/isa/src/machine makes of program.asm.
`timescale 1ns/100fs

module bench;
    `include "params.vh"

    localparam ADDRESS = HOST_ADDR_BITS;
    // The core's registers: the uppermost address bit, and a number.
    localparam [ADDRESS - 1:0] REGISTERS = 1 << (ADDRESS - 1);
    localparam [ADDRESS - 1:0] QUEUE = REGISTERS + 0, STATUS = REGISTERS + 0;

    // 1 GHz and 1.6 GHz; no relation between the two is needed.
    reg clk = 0, dram_clk = 0, rst_n = 0;
    always #0.5 clk = !clk;
    always #0.3125 dram_clk = !dram_clk;

    reg host_valid = 0, host_write = 0;
    reg [ADDRESS - 1:0] host_addr;
    reg [7:0] host_tag = 0;
    reg [511:0] host_data;
    wire host_ready, response_valid, response_write;
    wire [7:0] response_tag;
    wire [511:0] response_data;

    wire take, start, refuse, busy;

    localparam RANKS = GEMV_RANKS;
    wire [RANKS - 1:0] cs_n, act_n, bg, dq_oe;
    wire [2 * RANKS - 1:0] ba;
    wire [18 * RANKS - 1:0] a;
    wire [128 * RANKS - 1:0] dq_to_rank, dq_from_rank;

    ndp_core_top core (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .host_valid_i(host_valid), .host_write_i(host_write), .host_addr_i(host_addr), .host_tag_i(host_tag),
        .host_data_i(host_data), .host_ready_o(host_ready),
        .response_ready_i(1'b1), .response_valid_o(response_valid), .response_write_o(response_write),
        .response_tag_o(response_tag), .response_data_o(response_data),
        .r0_cs_n_o(cs_n[0]), .r0_act_n_o(act_n[0]), .r0_bg_o(bg[0]), .r0_ba_o(ba[1:0]), .r0_a_o(a[17:0]),
        .r0_dq_o(dq_to_rank[127:0]), .r0_dq_oe_o(dq_oe[0]), .r0_dq_i(dq_from_rank[127:0]),
`ifndef ONE_RANK
        .r1_cs_n_o(cs_n[1]), .r1_act_n_o(act_n[1]), .r1_bg_o(bg[1]), .r1_ba_o(ba[3:2]), .r1_a_o(a[35:18]),
        .r1_dq_o(dq_to_rank[255:128]), .r1_dq_oe_o(dq_oe[1]), .r1_dq_i(dq_from_rank[255:128]),
        // No link: nothing comes, and the number does not matter.
        .link_lanes_i({LINK_WORD_BITS{1'b0}}), .link_node_i(4'd0), .link_lanes_o(),
`endif
        .parts_busy_o(), .take_o(take), .start_o(start), .refuse_o(refuse), .busy_o(busy)
    );

    // The end: each rank adds what it counted.
    event finished;
    integer broken, commands;
    genvar g;
    generate
        for (g = 0; g < RANKS; g = g + 1) begin : dimm
            always @(finished) begin
                rank.finish;
                broken = broken + rank.errors;
                commands = commands + rank.commands;
            end
            ddr4_rank #(.RANK(g)) rank (
                .clk_i(dram_clk), .cs_n_i(cs_n[g]), .act_n_i(act_n[g]), .bg_i(bg[g]), .ba_i(ba[2 * g +: 2]),
                .a_i(a[18 * g +: 18]), .dq_i(dq_to_rank[128 * g +: 128]), .dq_oe_i(dq_oe[g]),
                .dq_o(dq_from_rank[128 * g +: 128])
            );
        end
    endgenerate

    integer errors = 0;

    // Registers, memories and the DRAM begin with X. None of it may reach an output that is valid.
    task known(input [8 * 24 - 1:0] what, input bits);
        if (bits === 1'bx) begin
            $display("FAIL: %0s is unknown at %0t", what, $time);
            give_up;
        end
    endtask

    always @(posedge clk)
        if (rst_n) begin
            known("host_ready_o", host_ready);
            known("response_valid_o", response_valid);
            known("a status output", ^{take, start, refuse, busy});
            if (response_valid === 1'b1) begin
                known("response_tag_o", ^{response_tag, response_write});
                // All that is read here has been written before.
                if (!response_write) known("response_data_o", ^response_data);
            end
        end

    integer rank_number;
    always @(posedge dram_clk)
        if (rst_n) begin
            known("cs_n or dq_oe", ^{cs_n, dq_oe});
            for (rank_number = 0; rank_number < RANKS; rank_number = rank_number + 1) begin
                if (cs_n[rank_number] === 1'b0)
                    known("a command", ^{act_n[rank_number], bg[rank_number], ba[2 * rank_number +: 2], a[18 * rank_number +: 18]});
                if (dq_oe[rank_number] === 1'b1) known("data of a WR", ^dq_to_rank[128 * rank_number +: 128]);
            end
        end

    // Ends the simulation with an exit code of its own, where the simulator has one.
    task give_up;
`ifdef __ICARUS__
        $finish_and_return(1);
`else
        $stop;
`endif
    endtask

    // Responses: as many as requests, in any order among the ranks; what was read is kept by tag.
    integer asked = 0, answered = 0;
    reg [511:0] read_data [0:255];
    always @(posedge clk)
        if (rst_n && response_valid) begin
            answered = answered + 1;
            if (!response_write) read_data[response_tag] = response_data;
        end

    // Offers a request until it is taken. Inputs change between the edges.
    task request(input write, input [ADDRESS - 1:0] address, input [511:0] data);
        begin
            @(negedge clk);
            host_valid = 1;
            host_write = write;
            host_addr = address;
            host_data = data;
            host_tag = host_tag + 1;
            asked = asked + 1;
            @(posedge clk);
            while (!host_ready) @(posedge clk);
            @(negedge clk);
            host_valid = 0;
            // Without a request its fields do not matter.
            host_write = 1'bx;
            host_addr = {ADDRESS{1'bx}};
            host_data = {512{1'bx}};
        end
    endtask

    task wait_for_responses;
        while (answered != asked) @(posedge clk);
    endtask

    task read_one(input [ADDRESS - 1:0] address, output [511:0] data);
        begin
            request(0, address, 512'd0);
            wait_for_responses;
            data = read_data[host_tag];
        end
    endtask

    // Lines are numbers in hexadecimal: an address (32 bits) with a burst (512 bits), or an instruction (128 bits).
    reg [543:0] entry;
    reg [127:0] word;
    reg [511:0] burst, status;
    integer file, line, part;

    task open(input [8 * 16 - 1:0] name);
        begin
            line = 0;
            file = $fopen(name, "r");
            if (file == 0) begin
                $display("FAIL: cannot open %0s; run this in its folder", name);
                give_up;
            end
        end
    endtask

    // Sends four instructions when the queue has room for all of them.
    task send_burst;
        begin
            status = 0;
            while (status[63:32] < 4) read_one(STATUS, status);
            request(1, QUEUE, burst);
            part = 0;
            burst = 0;
        end
    endtask

    task check(input [8 * 24 - 1:0] what, input integer value, input integer wanted);
        if (value !== wanted) begin
            errors = errors + 1;
            $display("%0s: %0d, expected %0d", what, value, wanted);
        end
    endtask

    initial begin
        // Both resets together for four cycles of the slower clock, and a few more.
        repeat (16) @(negedge clk);
        rst_n = 1;

        open("data.hex");
        while ($fscanf(file, "%h", entry) == 1) begin
            request(1, entry[512 +: ADDRESS], entry[511:0]);
            line = line + 1;
        end
        $display("%0d bursts of data", line);
        // Instructions read DRAM by ways of their own: what they need has to be there.
        wait_for_responses;

        // Four instructions in a burst, nop (0) in places that are left.
        open("program.hex");
        part = 0;
        burst = 0;
        while ($fscanf(file, "%h", word) == 1) begin
            burst[128 * part +: 128] = word;
            part = part + 1;
            line = line + 1;
            if (part == 4) send_burst;
        end
        if (part != 0) send_burst;
        $display("%0d instructions", line);

        // Word 8 counts the signals that were reached, word 7 is the tag of the last.
        status = 0;
        while (status[256 +: 32] == 0) read_one(STATUS, status);
        check("tag of the signal", status[224 +: 32], 7);
        check("malformed instructions", status[128 +: 32], 0);
        check("first error", status[160 +: 32], 0);
        $display("%0d cycles since reset", status[288 +: 32]);

        open("expected.hex");
        while ($fscanf(file, "%h", entry) == 1) begin
            read_one(entry[512 +: ADDRESS], burst);
            line = line + 1;
            if (burst !== entry[511:0]) begin
                errors = errors + 1;
                $display("burst %h: %h, expected %h", entry[543:512], burst, entry[511:0]);
            end
        end
        $display("%0d bursts compared", line);
        check("bursts compared", line, 6);

        broken = 0;
        commands = 0;
        ->finished;
        #0 check("commands broke rules", broken, 0);
        $display("%0d DRAM commands", commands);
        if (errors != 0) begin
            $display("FAIL: %0d errors", errors);
            give_up;
        end
        $display("PASS");
        $finish;
    end

    // Nothing of this takes longer; a handshake that is wrong would wait for ever.
    initial begin
        #200000;
        $display("FAIL: no end after 200 us; %0d requests, %0d responses", asked, answered);
        give_up;
    end
endmodule
