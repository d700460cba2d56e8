/* SPDX-License-Identifier: Apache-2.0
 * Records between a fleet's manager and its host (the code that performs the manager's actions):
 * the launcher's jobs, gateways' reports, operators' orders, and actions on units. The fleet assigns a number to each unit and never
 * reuses it. The unit receives its number at its start.
 */
#pragma once

#include "contract/record.h"

/* FLEET_LOAD: sums over the fleet's gateways. All fields except the last two are counters, which
 * restart at zero with a gateway. */
struct record_fleet_load {
    struct record record;
    /* requests with a prompt that was accepted as valid, including requests refused later; one for
     * each choice */
    uint64_t arrived_requests;
    uint64_t arrived_tokens;    /* tokens of their prompts, each prompt counted once */
    uint64_t hit_tokens;        /* cached prompt tokens of finished requests */
    uint64_t miss_tokens;       /* computed prompt tokens of finished requests */
    uint64_t completed;         /* requests that completed normally (stop or length limit) */
    uint64_t output_tokens;     /* tokens of their answers */
    uint64_t first_tokens;      /* requests that have produced a first token */
    uint64_t late_first_tokens; /* of these, requests with a TTFT above the limit */
    uint64_t timed_answers;     /* completed requests with at least two output tokens */
    uint64_t slow_answers;      /* of these, requests with a TPOT above the limit */
    uint32_t requests_queued;   /* requests waiting for a unit */
    uint32_t requests_held;     /* requests in the gateways, including the queued ones */
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
    FLEET_UNIT_COUNT
};

/* FLEET_UNIT: the observed state of a unit, reported to the manager at each step, or a failed
 * launch. The manager adopts a unit that it does not know. When a unit is gone, the host also
 * receives this record (GONE). */
struct record_fleet_unit {
    struct record record;
    uint32_t number;              /* from 1 on */
    uint32_t role;                /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t observed_state;      /* enum fleet_unit_state */
    uint32_t requests;            /* requests at the unit, as gateways report */
    uint32_t drained_by_operator; /* 1: an operator drained it and has not resumed it */
    /* 1: its requests cannot move, because for at least one role no other serving unit has its
     * numerics */
    uint32_t stranded;
};

enum fleet_order_kind { FLEET_ORDER_DRAIN, FLEET_ORDER_RESUME, FLEET_ORDER_PIN, FLEET_ORDER_COUNT };

#define FLEET_UNPINNED UINT32_MAX

/* FLEET_ORDER: an operator's order. */
struct record_fleet_order {
    struct record record;
    uint32_t kind;   /* enum fleet_order_kind */
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
    /* DRAIN, RESUME, ROLE: one action for each gateway that is connected to the unit. */
    uint32_t gateway;    /* index of the gateway */
    uint32_t connection; /* the gateway's number for the unit; 0: no gateway is connected to it */
};

#define FLEET_REASONS_MAX 32

/* Validate the fields, for record_forms.c. */
bool record_fleet_gateway_valid(const void *record);
bool record_fleet_jobs_valid(const void *record);
bool record_fleet_unit_valid(const void *record);
bool record_fleet_order_valid(const void *record);
bool record_fleet_action_valid(const void *record);
