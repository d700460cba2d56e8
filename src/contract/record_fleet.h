/* SPDX-License-Identifier: Apache-2.0
 * Records between a fleet's manager and its host: the launcher's jobs, the reports of gateways,
 * orders of operators, and actions on units. The fleet assigns a number to each unit and never
 * reuses it. The unit receives its number at its start.
 */
#pragma once

#include "contract/record.h"

/* FLEET_LOAD: sums over the fleet's gateways. All fields except the last two are counters, which
 * restart at zero with a gateway. */
struct record_fleet_load {
    struct record record;
    uint64_t arrived_requests; /* requests with a known prompt, computed or not */
    uint64_t arrived_tokens;   /* tokens of their prompts */
    uint64_t hit_tokens;       /* cached prompt tokens of requests that ended */
    uint64_t miss_tokens;      /* computed prompt tokens of requests that ended */
    uint64_t answers;          /* requests that ended with an answer */
    uint64_t answer_tokens;    /* tokens of those answers */
    uint64_t first_tokens;     /* requests with a first token */
    uint64_t late_first;       /* requests with a first token after the TTFT limit */
    uint64_t timed_answers;    /* ended answers with at least two tokens */
    uint64_t slow_answers;     /* timed answers with a mean time per token above the limit */
    uint32_t queued;           /* requests that wait for a unit */
    uint32_t held;             /* requests in gateways, including queued ones */
};

/* FLEET_GATEWAY: the report of one gateway, or its failure to respond. */
struct record_fleet_gateway {
    struct record record;
    uint32_t gateway;              /* index of the gateway */
    uint32_t answers;              /* 0: it does not respond, and the fields below are zero */
    struct record_fleet_load load; /* counters of the gateway; the record's head is not set */
    uint32_t unit_count;
    uint32_t reserved;
};

struct fleet_gateway_unit {
    uint64_t instance; /* from the unit's hello */
    /* number assigned by the fleet, part of the instance; 0: the unit is not in the fleet */
    uint32_t number;
    uint32_t connection; /* the gateway's id of the unit */
    uint32_t role;       /* enum unit_role */
    uint32_t sight;      /* FLEET_SEEN_STARTING, SERVING or DRAINING */
    uint32_t requests;   /* requests that this gateway has at the unit */
    uint32_t refused;    /* 1: the gateway does not use the unit: its model or version differs */
    char numerics[32];   /* zero-padded */
};
RECORD_TAIL(record_fleet_gateway, 0, struct fleet_gateway_unit, fleet_gateway_units)

/* FLEET_JOBS: all jobs of the launcher, or its failure to respond. */
struct record_fleet_jobs {
    struct record record;
    uint32_t answers; /* 0: the launcher does not respond, and no job follows */
    uint32_t job_count;
};

#define FLEET_JOB_NAME_BYTES 64

struct launcher_job {
    uint32_t number;
    uint32_t role;                   /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t waits;                  /* 1: it waits for nodes */
    uint32_t reserved;               /* zero */
    char name[FLEET_JOB_NAME_BYTES]; /* for operators: "pid 4711", "job 17 on n3"; zero-padded */
};
RECORD_TAIL(record_fleet_jobs, 0, struct launcher_job, fleet_jobs)

enum fleet_sight {
    FLEET_SEEN_QUEUED,   /* the launcher waits for nodes */
    FLEET_SEEN_STARTING, /* it runs, but no gateway is connected to it */
    FLEET_SEEN_SERVING,
    FLEET_SEEN_DRAINING, /* it accepts nothing new */
    FLEET_SEEN_GONE,     /* the launcher no longer has it */
    FLEET_SEEN_REFUSED,  /* the launch failed */
    FLEET_SEEN_COUNT
};

/* FLEET_UNIT: the observed state of a unit, which the host sends repeatedly, or a failed launch
 * (REFUSED). The manager adopts an unknown unit. The manager sends this record to the host at the
 * end of a unit (GONE). */
struct record_fleet_unit {
    struct record record;
    uint32_t number;   /* from 1 on */
    uint32_t role;     /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t sight;    /* enum fleet_sight */
    uint32_t requests; /* requests at the unit, as gateways report */
    uint32_t held;     /* 1: an operator drained it and has not resumed it */
    /* 1: its requests cannot move, because no other units of both roles have its numerics */
    uint32_t alone;
};

enum fleet_wish { FLEET_WISH_DRAIN, FLEET_WISH_RESUME, FLEET_WISH_PIN, FLEET_WISH_COUNT };

#define FLEET_UNPINNED UINT32_MAX

/* FLEET_ORDER: an order of an operator. */
struct record_fleet_order {
    struct record record;
    uint32_t wish;   /* enum fleet_wish */
    uint32_t number; /* DRAIN, RESUME: number of the unit */
    uint32_t role;   /* PIN: UNIT_PREFILL or UNIT_DECODE */
    uint32_t count;  /* PIN: number of units, or FLEET_UNPINNED */
};

enum fleet_act {
    FLEET_ACT_START, /* start a new unit */
    FLEET_ACT_DRAIN, /* accept nothing new */
    FLEET_ACT_BACK,  /* accept requests again */
    FLEET_ACT_ROLE,  /* change to `role` */
    FLEET_ACT_STOP,  /* exit; the unit has no requests */
    FLEET_ACT_KILL,  /* exit at once; its requests continue on other units */
    FLEET_ACT_COUNT
};

/* FLEET_ACTION: an action for the host, repeated until its effect is observed. */
struct record_fleet_action {
    struct record record;
    uint32_t act;    /* enum fleet_act */
    uint32_t number; /* number of the unit */
    uint32_t role;   /* START, ROLE: UNIT_PREFILL or UNIT_DECODE; else 0 */
    uint32_t reason; /* enum scale_reason for the log; below FLEET_REASONS_MAX */
    /* DRAIN, BACK, ROLE: one action for each gateway that is connected to the unit. */
    uint32_t gateway;    /* index of the gateway */
    uint32_t connection; /* the gateway's id of the unit; 0: no gateway is connected to it */
};

#define FLEET_REASONS_MAX 32

/* Validate the fields, for record_forms.c. */
bool record_fleet_gateway_valid(const void *record);
bool record_fleet_jobs_valid(const void *record);
bool record_fleet_unit_valid(const void *record);
bool record_fleet_order_valid(const void *record);
bool record_fleet_action_valid(const void *record);
