// A self-checking bench of a packaged `pim_controller` with the commands of AiM: does what is read come with its kind, whatever the channel
// refuses? All of it is in docs/hbm-pim.md (words, times, queues, `read_kind_o`, `refused_o`) and docs/hbm-presets.md (commands of AiM).
//
// The channel is this bench: it refuses RDG and SUM, which are not in the set, and some of the other reads at random.
`timescale 1ns/1ps

module bench;
    `include "params.vh"

    localparam GROUPS = DEVICE_BANK_GROUPS;
    localparam GROUP = $clog2(DEVICE_BANK_GROUPS), BANK = $clog2(DEVICE_BANKS_PER_GROUP), ROW = DEVICE_ROW_BITS;
    localparam POSITION = GROUP + 5;
    localparam REQUEST = 2 * POSITION + ROW + BANK + 5 + 2, OPERATION = BANK + GROUP + ROW + 5 + 5 + 5 + 3 + 2;
    // Kinds of requests and operations.
    localparam READ = 0, COPY = 2, RUN = 1, RESULTS = 2, SUM = 3;
    // Column opcodes, and codes of refusals.
    localparam RD = 1, RDG = 3, RES = 6, SUM_COMMAND = 7;
    localparam CLOSED = 3, NOT_IN_SET = 17, T_MAC = 49;

    reg clk = 0, rst_n = 0;
    always #0.5 clk = !clk;

    reg request_valid = 0, operation_valid = 0;
    reg [REQUEST - 1:0] request = 0;
    reg [OPERATION - 1:0] operation = 0;
    wire request_ready, operation_ready, read_valid, idle;
    wire [31:0] row, column;
    wire [255:0] read;
    wire [1:0] read_kind;
    wire [13:0] refused;
    wire [2:0] reported;
    reg data_valid = 0;
    reg [127:0] data;
    wire [6:0] status;

    `PIM_CONTROLLER controller (
        .clk_i(clk), .rst_ni(rst_n),
        .request_valid_i(request_valid), .request_i(request), .request_ready_o(request_ready),
        .operation_valid_i(operation_valid), .operation_i(operation), .operation_ready_o(operation_ready),
        .write_valid_i(1'b0), .write_data_i(256'd0), .write_ready_o(),
        .load_valid_i(1'b0), .load_data_i(256'd0), .load_ready_o(),
        .data_valid_i(data_valid), .data_i(data), .row_status_i(7'd0), .column_status_i(status),
        .refresh_late_i(1'b0), .write_missing_i(1'b0), .write_unexpected_i(1'b0),
        .row_o(row), .column_o(column), .data_valid_o(), .data_o(),
        .read_valid_o(read_valid), .read_o(read), .read_kind_o(read_kind),
        .refused_o(refused), .reported_o(reported), .request_done_o(), .idle_o(idle)
    );

    integer errors = 0;
    task fail(input [8 * 40 - 1:0] what, input integer found, input integer expected);
        begin
            errors = errors + 1;
            if (errors <= 10) $display("FAIL: %0s: %0d, expected %0d, at %0t", what, found, expected, $time);
        end
    endtask

    // The channel. A column that was never written is as good as any other: each has contents of its own.
    function [255:0] column_of(input [3:0] bank, input [ROW - 1:0] of_row, input [4:0] at);
        integer lane;
        for (lane = 0; lane < 8; lane = lane + 1) column_of[32 * lane +: 32] = {lane[2:0], bank, at, 20'd0} | of_row;
    endfunction

    integer seed = 1;
    // Whether accesses are refused at random, and whether the one of this clock is.
    reg random_refusals = 0, chance = 0;
    wire [3:0] opcode = column[3:0];
    wire [3:0] bank = {column[8:7], column[6:5]};
    assign status = opcode == RDG || opcode == SUM_COMMAND ? NOT_IN_SET : !chance ? 0 : opcode == RD ? CLOSED : opcode == RES ? T_MAC : 0;

    reg [ROW - 1:0] open_row [0:15];
    // By clock: what is on the data bus.
    reg [128:0] bus [0:63];
    // What has to be read, in the order of the commands that were carried out; what they have to be, in the order of the requests.
    reg [257:0] expected [0:65535];
    reg [3 + ROW + 5 + 4:0] wanted [0:65535];
    integer now = 0, accepted = 0, answered = 0, commanded = 0, asked = 0, results = 0, sums = 0, refusals = 0, first = 0;
    integer i;
    initial for (i = 0; i < 64; i = i + 1) bus[i] = 0;

    reg [255:0] contents;
    always @(posedge clk) if (rst_n) begin
        if (row[3:0] == 1) open_row[{row[8:7], row[6:5]}] = row[23:9];
        if (opcode == RD || opcode == RDG) begin
            if (commanded >= asked) fail("a read that nobody has asked for", commanded, asked);
            else if (wanted[commanded] !== {opcode, open_row[bank], column[13:9], bank}) fail("a read out of order", commanded, asked);
            commanded = commanded + 1;
        end
        if (opcode == RES) results = results - 1;
        if (opcode == SUM_COMMAND) sums = sums - 1;
        if (status != 0) begin
            refusals = refusals + 1;
            if (first == 0) first = status;
        end else if (opcode == RD || opcode == RES) begin
            contents = opcode == RD ? column_of(bank, open_row[bank], column[13:9]) : {8{accepted, 24'h5e5e5e}};
            bus[(now + TIMING_T_CL) % 64] = {1'b1, contents[127:0]};
            bus[(now + TIMING_T_CL + 1) % 64] = {1'b1, contents[255:128]};
            expected[accepted] = {opcode == RES ? 2'd1 : 2'd0, contents};
            accepted = accepted + 1;
        end
        if (read_valid !== 1'b0) begin
            if (answered >= accepted) fail("answers", answered + 1, accepted);
            else begin
                if (read_kind !== expected[answered][257:256]) fail("kind of what was read", read_kind, expected[answered][257:256]);
                if (read !== expected[answered][255:0]) fail("a column differs; its number is", answered, answered);
            end
            answered = answered + 1;
        end
        bus[now % 64] = 0;
        now = now + 1;
        {data_valid, data} <= bus[now % 64];
        chance <= random_refusals && $unsigned($random(seed)) % 8 == 0;
    end

    // A request for columns from a position of a stripe on: position `p` is column `p / groups` of bank group `p mod groups`.
    integer n;
    task ask(input integer kind, input integer position, input integer columns, input integer of_row, input integer of_bank, input integer slot);
        reg [POSITION - 1:0] at, left;
        reg [ROW - 1:0] r;
        reg [BANK - 1:0] b;
        reg [4:0] s;
        reg [1:0] k;
        reg [POSITION - 1:0] place;
        begin
            {at, left, r, b, s, k} = {position[POSITION - 1:0], columns[POSITION - 1:0] - 1'b1, of_row[ROW - 1:0], of_bank[BANK - 1:0], slot[4:0], kind[1:0]};
            for (n = 0; n < columns; n = n + 1) begin
                place = at + n;
                wanted[asked] = {kind == COPY ? 4'd3 : 4'd1, r, place[POSITION - 1:GROUP], place[GROUP - 1:0], b};
                asked = asked + 1;
            end
            @(negedge clk) request = {k, s, b, r, left, at};
            request_valid = 1;
            @(posedge clk) while (!request_ready) @(posedge clk);
            @(negedge clk) request_valid = 0;
        end
    endtask

    task operate(input integer kind, input integer of_bank, input integer of_row, input integer steps);
        reg [4:0] left;
        reg [ROW - 1:0] r;
        reg [1:0] k;
        begin
            {left, r, k} = {steps[4:0] - 1'b1, of_row[ROW - 1:0], kind[1:0]};
            if (kind == RESULTS) results = results + 1;
            if (kind == SUM) sums = sums + 1;
            // First, and last on its row.
            @(negedge clk) operation = {k, 1'b0, 1'b1, 1'b1, left, 5'd0, 5'd0, r, of_bank[BANK + GROUP - 1:0]};
            operation_valid = 1;
            @(posedge clk) while (!operation_ready) @(posedge clk);
            @(negedge clk) operation_valid = 0;
        end
    endtask

    task drain;
        begin
            repeat (8) @(posedge clk);
            while (idle !== 1'b1) @(posedge clk);
            repeat (2 * TIMING_T_CL) @(posedge clk);
            if (answered != accepted) fail("answers", answered, accepted);
            if (commanded != asked) fail("reads", commanded, asked);
            if (results != 0) fail("results that are left", results, 0);
            if (sums != 0) fail("sums that are left", sums, 0);
            if (refused !== {first[6:0], 7'd0}) fail("refused_o", refused, first << 7);
            if (reported !== 0) fail("reported_o", reported, 0);
        end
    endtask

    integer round;
    initial begin
        repeat (8) @(negedge clk);
        rst_n = 1;
        // One copy, which is refused: what comes next has its own kind.
        ask(READ, 0, 2, 3, 0, 0);
        drain;
        ask(COPY, 2, 1, 3, 0, 7);
        drain;
        if (refused !== {7'd17, 7'd0}) fail("refused_o", refused, 17 << 7);
        operate(RESULTS, 0, 0, 1);
        drain;
        ask(READ, 4, 3, 3, 0, 0);
        drain;
        operate(SUM, 5, 0, 1);
        operate(RESULTS, 0, 0, 1);
        drain;
        random_refusals = 1;
        for (round = 0; round < 600; round = round + 1) begin
            case ($unsigned($random(seed)) % 8)
                0: ask(COPY, $unsigned($random(seed)) % 64, 1 + $unsigned($random(seed)) % 4, $unsigned($random(seed)) % 3, $unsigned($random(seed)) % 4, 0);
                1, 2: operate(RESULTS, 0, 0, 1);
                3: operate(SUM, $unsigned($random(seed)) % 16, 0, 1);
                4: operate(RUN, 0, 20 + $unsigned($random(seed)) % 2, 1 + $unsigned($random(seed)) % 8);
                default: ask(READ, $unsigned($random(seed)) % 64, 1 + $unsigned($random(seed)) % 8, $unsigned($random(seed)) % 3, $unsigned($random(seed)) % 4, 0);
            endcase
            if (round % 100 == 99) drain;
        end
        $display("%0d answers, %0d refusals", answered, refusals);
        if (answered < 1000 || refusals < 300) fail("too few answers or refusals", answered, 1000);
        if (errors == 0) $display("PASS");
        $finish_and_return(errors != 0);
    end

    initial begin
        #200000 $display("FAIL: no end; %0d of %0d reads, %0d of %0d answers", commanded, asked, answered, accepted);
        $finish_and_return(1);
    end
endmodule
