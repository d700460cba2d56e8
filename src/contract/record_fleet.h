/* SPDX-License-Identifier: Apache-2.0
 * Records between a fleet's manager and its host: the launcher's jobs, the gateways' reports, operators'
 * orders, and actions on units. A unit's number is assigned by the fleet once and never again; the unit
 * knows it, too.
 */
#ifndef CONTRACT_RECORD_FLEET_H
#define CONTRACT_RECORD_FLEET_H

#include "contract/record.h"

/* FLEET_LOAD: sums over the fleet's gateways. All but the last two are counters, which may begin
 * anew with a gateway. */
struct record_fleet_load {
    struct record record;
    uint64_t arrived_requests; /* with a known prompt, computed or not */
    uint64_t arrived_tokens;   /* of their prompts */
    uint64_t hit_tokens;       /* of the prompts of requests that ended, found in a cache */
    uint64_t miss_tokens;      /* of those prompts, computed */
    uint64_t answers;          /* requests that ended with an answer */
    uint64_t answer_tokens;    /* theirs */
    uint64_t first_tokens;     /* requests that have their first token */
    uint64_t late_first;       /* of them, later than the TTFT limit after they came */
    uint64_t timed_answers;    /* answers of two tokens and more that ended */
    uint64_t slow_answers;     /* of them, with a mean time from token to token above the limit */
    uint32_t queued;           /* requests that wait for a unit */
    uint32_t held;             /* requests that a gateway has, those included */
};

/* FLEET_GATEWAY: one gateway's report, or that it does not answer. */
struct record_fleet_gateway {
    struct record record;
    uint32_t gateway;              /* its index */
    uint32_t answers;              /* 0: it does not answer, and all that follows is zero */
    struct record_fleet_load load; /* its own counters; without a head */
    uint32_t unit_count;
    uint32_t reserved;
};

struct fleet_gateway_unit {
    uint64_t instance;   /* of its hello */
    uint32_t number;     /* the fleet's, from the instance; 0: it is no unit of the fleet */
    uint32_t connection; /* the gateway's id of the unit */
    uint32_t role;       /* enum unit_role */
    uint32_t sight;      /* FLEET_SEEN_STARTING, SERVING or DRAINING */
    uint32_t requests;   /* that this gateway has at the unit */
    uint32_t refused;    /* 1: the gateway does not use it: another model or version */
    char numerics[32];   /* zero-padded */
};
RECORD_TAIL(record_fleet_gateway, 0, struct fleet_gateway_unit, fleet_gateway_units)

/* FLEET_JOBS: all units that the launcher has, or that it does not answer. */
struct record_fleet_jobs {
    struct record record;
    uint32_t answers; /* 0: it does not answer, and no job follows */
    uint32_t job_count;
};

#define FLEET_JOB_NAME_BYTES 64

struct launcher_job {
    uint32_t number;
    uint32_t role;                   /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t waits;                  /* 1: for nodes */
    uint32_t reserved;               /* zero */
    char name[FLEET_JOB_NAME_BYTES]; /* for a person: "pid 4711", "job 17 on n3"; zero-padded */
};
RECORD_TAIL(record_fleet_jobs, 0, struct launcher_job, fleet_jobs)

enum fleet_sight {
    FLEET_SEEN_QUEUED,   /* its launcher has it, and waits for nodes */
    FLEET_SEEN_STARTING, /* it runs, and no gateway knows it yet */
    FLEET_SEEN_SERVING,
    FLEET_SEEN_DRAINING, /* it takes nothing new */
    FLEET_SEEN_GONE,     /* its launcher does not have it any more */
    FLEET_SEEN_REFUSED,  /* it could not be launched at all */
    FLEET_SEEN_COUNT
};

/* FLEET_UNIT: the observed state of a unit, sent repeatedly. The manager adopts a unit that it does
 * not know yet. From the host it reports a failed launch (REFUSED); to the host, a unit's end (GONE). */
struct record_fleet_unit {
    struct record record;
    uint32_t number;   /* 1.. */
    uint32_t role;     /* enum unit_role: UNIT_PREFILL or UNIT_DECODE */
    uint32_t sight;    /* enum fleet_sight */
    uint32_t requests; /* that it has, as gateways know */
    uint32_t held;     /* 1: an operator drained it, until an operator resumes it */
    uint32_t alone; /* 1: no others of both roles have its numerics, so its requests cannot move */
};

enum fleet_wish { FLEET_WISH_DRAIN, FLEET_WISH_RESUME, FLEET_WISH_PIN, FLEET_WISH_COUNT };

#define FLEET_UNPINNED UINT32_MAX

/* FLEET_ORDER: an operator's. */
struct record_fleet_order {
    struct record record;
    uint32_t wish;   /* enum fleet_wish */
    uint32_t number; /* DRAIN, RESUME: of the unit */
    uint32_t role;   /* PIN: enum unit_role, as above */
    uint32_t count;  /* PIN: units, or FLEET_UNPINNED */
};

enum fleet_act {
    FLEET_ACT_START, /* a new unit */
    FLEET_ACT_DRAIN, /* it takes nothing new */
    FLEET_ACT_BACK,  /* it takes requests again */
    FLEET_ACT_ROLE,  /* it is `role` from now on */
    FLEET_ACT_STOP,  /* it has nothing left: it ends */
    FLEET_ACT_KILL,  /* it ends now; its requests continue elsewhere */
    FLEET_ACT_COUNT
};

/* FLEET_ACTION: for the host, repeated until its effect is seen. */
struct record_fleet_action {
    struct record record;
    uint32_t act;    /* enum fleet_act */
    uint32_t number; /* of the unit */
    uint32_t role;   /* START, ROLE: enum unit_role, as above; else 0 */
    uint32_t reason; /* enum scale_reason, for the log; below FLEET_REASONS_MAX */
    /* DRAIN, BACK, ROLE: one action for each gateway that knows the unit. */
    uint32_t gateway;    /* its index */
    uint32_t connection; /* the gateway's id of the unit; 0: no gateway knows it */
};

#define FLEET_REASONS_MAX 32

/* Check the fields' values, for record_forms.c. */
bool record_fleet_gateway_valid(const void *record);
bool record_fleet_jobs_valid(const void *record);
bool record_fleet_unit_valid(const void *record);
bool record_fleet_order_valid(const void *record);
bool record_fleet_action_valid(const void *record);

#endif
