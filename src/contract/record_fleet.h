/* SPDX-License-Identifier: Apache-2.0
 * Records between a fleet's manager and its host (the code that performs the manager's actions):
 * the launcher's jobs, gateways' reports, operators' commands, and actions on units. Each unit is
 * given a number when it is started; numbers are never reused.
 */
#pragma once

#include "contract/record.h"

/* FLEET_LOAD: the load of the whole fleet, summed over its gateways; also the load of one gateway
 * inside FLEET_GATEWAY. All fields except the last two are cumulative counters. A gateway's
 * counters start again at zero when it restarts, so a sum can decrease. */
struct record_fleet_load {
    struct record record;
    /* requests whose prompt was valid, including those rejected later; a request for n choices
     * counts as n */
    uint64_t arrived_requests;
    uint64_t arrived_tokens; /* tokens of their prompts, each prompt counted once */
    uint64_t hit_tokens;     /* cached prompt tokens of finished requests */
    uint64_t miss_tokens;    /* computed prompt tokens of finished requests */
    uint64_t completed;      /* requests that completed normally (stop or length limit) */
    uint64_t output_tokens;  /* output tokens of these requests */
    uint64_t first_tokens;   /* requests that have produced a first token */
    uint64_t ttft_misses;    /* of these, requests with a TTFT above the limit */
    /* completed requests with a TPOT, that is, at least two output tokens */
    uint64_t tpot_requests;
    uint64_t tpot_misses;     /* of these, requests with a TPOT above the limit */
    uint32_t requests_queued; /* requests waiting for a unit */
    uint32_t requests_held;   /* requests in the gateways, including the queued ones */
};

/* FLEET_GATEWAY: the report of one gateway, or its failure to respond. */
struct record_fleet_gateway {
    struct record record;
    uint32_t gateway;              /* index of the gateway */
    uint32_t responds;             /* 0: it does not respond, and the fields below are zero */
    struct record_fleet_load load; /* counters of the gateway; its record header is not set */
    uint32_t unit_count;
    uint32_t reserved;
};

struct fleet_gateway_unit {
    uint64_t instance; /* from the unit's hello */
    /* the fleet's number for the unit, taken from `instance`; 0: the unit is not in this fleet */
    uint32_t number;
    uint32_t connection;     /* the gateway's number for the unit, which its orders name */
    uint32_t role;           /* enum unit_role */
    uint32_t observed_state; /* FLEET_UNIT_STARTING, SERVING or DRAINING */
    uint32_t requests;       /* this gateway's requests on the unit */
    /* 1: the gateway rejected the unit, for example because its model or version differs */
    uint32_t refused;
    char numerics[32]; /* units with the same id compute bit-identical results; zero-padded */
};
RECORD_TAIL(record_fleet_gateway, 0, struct fleet_gateway_unit, fleet_gateway_units)

/* FLEET_JOBS: all jobs of the launcher, or its failure to respond. */
struct record_fleet_jobs {
    struct record record;
    uint32_t responds; /* 0: the launcher does not respond, and no job follows */
    uint32_t job_count;
};

#define FLEET_JOB_NAME_BYTES 64

struct launcher_job {
    uint32_t number;
    uint32_t role;                   /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t pending;                /* 1: it waits for nodes */
    uint32_t reserved;               /* zero */
    char name[FLEET_JOB_NAME_BYTES]; /* for operators: "pid 4711", "job 17 on n3"; zero-padded */
};
RECORD_TAIL(record_fleet_jobs, 0, struct launcher_job, fleet_jobs)

enum fleet_unit_state {
    FLEET_UNIT_QUEUED,   /* its job is waiting for nodes, or is not listed yet */
    FLEET_UNIT_STARTING, /* its process runs, but no gateway uses it */
    FLEET_UNIT_SERVING,
    FLEET_UNIT_DRAINING, /* it accepts nothing new */
    FLEET_UNIT_GONE,     /* the launcher no longer lists it */
    FLEET_UNIT_LAUNCH_FAILED,
    FLEET_UNIT_STATE_COUNT
};

/* FLEET_UNIT: the observed state of a unit, sent to the manager at each step, or a failed launch. A
 * unit the manager does not know yet is adopted (unless it is gone or its launch failed). When a
 * unit disappears, the record (with GONE) is sent to the host as well, which logs it. */
struct record_fleet_unit {
    struct record record;
    uint32_t number;              /* starts at 1 */
    uint32_t role;                /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t observed_state;      /* enum fleet_unit_state */
    uint32_t requests;            /* requests on the unit, as reported by the gateways */
    uint32_t drained_by_operator; /* 1: an operator drained it and has not resumed it */
    /* 1: its requests cannot move, because for at least one role no other serving unit has its
     * numerics */
    uint32_t stranded;
};

enum fleet_command_kind {
    FLEET_COMMAND_DRAIN,
    FLEET_COMMAND_RESUME,
    FLEET_COMMAND_PIN,
    FLEET_COMMAND_COUNT
};

#define FLEET_UNPINNED UINT32_MAX

/* FLEET_COMMAND: a command from an operator. */
struct record_fleet_command {
    struct record record;
    uint32_t kind;   /* enum fleet_command_kind */
    uint32_t number; /* DRAIN, RESUME: number of the unit */
    uint32_t role;   /* PIN: UNIT_PREFILL or UNIT_DECODE */
    uint32_t count;  /* PIN: number of units, or FLEET_UNPINNED */
};

enum fleet_act {
    FLEET_ACT_START,  /* start a unit */
    FLEET_ACT_DRAIN,  /* make the unit stop accepting requests */
    FLEET_ACT_RESUME, /* make the unit accept requests again */
    FLEET_ACT_ROLE,   /* change the unit to `role` */
    FLEET_ACT_STOP,   /* stop a unit that has no requests */
    /* stop the unit at once; its requests, if any, continue on other units where possible */
    FLEET_ACT_KILL,
    FLEET_ACT_COUNT
};

/* FLEET_ACTION: an action for the host, repeated until its effect is observed. */
struct record_fleet_action {
    struct record record;
    uint32_t act;    /* enum fleet_act */
    uint32_t number; /* number of the unit */
    uint32_t role;   /* START, ROLE: UNIT_PREFILL or UNIT_DECODE; else 0 */
    uint32_t reason; /* enum scale_reason for the log; below FLEET_REASONS_MAX */
    /* DRAIN, RESUME, ROLE: one action per gateway connected to the unit. */
    uint32_t gateway;    /* index of the gateway */
    uint32_t connection; /* the gateway's number for the unit; 0: no gateway is connected to it */
};

#define FLEET_REASONS_MAX 32

/* Validate the fields, for record_forms.c. */
bool record_fleet_gateway_valid(const void *record);
bool record_fleet_jobs_valid(const void *record);
bool record_fleet_unit_valid(const void *record);
bool record_fleet_command_valid(const void *record);
bool record_fleet_action_valid(const void *record);
