/* SPDX-License-Identifier: Apache-2.0
 * Protects the change of roles: the pressed kind gets a unit when it has been pressed for a while
 * and the other one can spare it, never the last one, never twice in a row, never back and forth.
 */

#include "contract/record_unit.h"
#include "serving/policy/choose_roles.h"
#include "test_case.h"

enum { UNITS = 4 };

static const struct choose_roles_rule rule = {.hold_ns = 2, .rest_ns = 10};
static struct balance_unit units[UNITS];
static struct choose_roles state;

static int open_fleet(void **ignored) {
    (void)ignored;
    state = (struct choose_roles){0};
    for (uint32_t i = 0; i < UNITS; i++)
        units[i] = (struct balance_unit){.accepts = true,
                                         .movable = true,
                                         .role = i < 2 ? UNIT_PREFILL : UNIT_DECODE,
                                         .rank_count = 1,
                                         .requests = 10 - i,
                                         .requests_max = 100,
                                         .pages_total = 1000,
                                         .pages_taken = 20};
    return 0;
}

static struct roles_choice look(uint32_t queued, int64_t now_ns) {
    struct roles_choice choice = choose_roles(&state, &rule, units, UNITS, queued, now_ns);
    if (choice.unit != BALANCE_NO_RANK) units[choice.unit].role = choice.role;
    return choice;
}

static enum roles_reason why(uint32_t queued, int64_t now_ns) {
    look(queued, now_ns);
    return state.reason;
}

TEST_AROUND(a_pressed_kind_gets_the_idlest_unit, open_fleet, NULL) {
    assert_int_equal(why(8, 0), ROLES_CALM);
    assert_int_equal(why(9, 1), ROLES_LOOKS);
    assert_int_equal(why(8, 2), ROLES_CALM); /* it did not last */
    assert_int_equal(why(20, 3), ROLES_LOOKS);
    assert_int_equal(why(20, 4), ROLES_LOOKS);
    struct roles_choice choice = look(20, 5);
    assert_int_equal(state.reason, ROLES_MOVES);
    assert_int_equal(choice.unit, 3);
    assert_int_equal(choice.role, UNIT_PREFILL);
    assert_int_equal(why(20, 6), ROLES_RESTS);
    assert_int_equal(why(20, 20), ROLES_NO_UNIT); /* the last one stays */
    units[2].pages_taken = 900;
    assert_int_equal(why(20, 21), ROLES_LOOKS);
    choice = look(20, 23);
    assert_int_equal(choice.unit, 3); /* back: it has least to do */
    assert_int_equal(choice.role, UNIT_DECODE);
}

TEST_AROUND(nobody_moves_who_is_needed, open_fleet, NULL) {
    units[2].requests = 70; /* with the other one gone, it would be too much */
    look(50, 0);
    assert_int_equal(why(50, 5), ROLES_NO_UNIT);
    units[2].requests = units[3].requests = 90; /* both kinds are pressed: decode is first */
    units[0].waiting = units[1].waiting = 3;
    look(50, 6);
    assert_int_equal(why(50, 10), ROLES_NO_UNIT);
    units[0].waiting = units[1].waiting = 0;
    units[1].movable = false;
    struct roles_choice choice = look(50, 11); /* those in the queue wait for pages */
    assert_int_equal(choice.unit, 0);
    assert_int_equal(choice.role, UNIT_DECODE);
}

TEST_AROUND(a_kind_that_is_gone_comes_back, open_fleet, NULL) {
    units[0].accepts = units[1].accepts = false;
    look(0, 0);
    assert_int_equal(look(0, 2).role, UNIT_PREFILL);
    units[0].accepts = units[1].accepts = units[2].accepts = false; /* one alone does everything */
    assert_int_equal(why(0, 50), ROLES_CALM);
    for (uint32_t i = 0; i < UNITS; i++)
        units[i].role = UNIT_BOTH;
    assert_int_equal(why(99, 60), ROLES_CALM);
}

/* Whatever the load, changes are rests apart, and each kind keeps a unit. */
TEST_AROUND(roles_do_not_swing_whatever_the_load, open_fleet, NULL) {
    int64_t moved_ns = -100;
    for (int64_t now_ns = 0; now_ns < 3000; now_ns++) {
        uint32_t queued = now_ns / 100 % 2 ? 60 : 0, kinds[UNIT_ROLE_COUNT] = {0};
        for (uint32_t i = 0; i < UNITS; i++)
            units[i].requests = now_ns / 70 % 3 ? 20 : 90;
        if (why(queued, now_ns) == ROLES_MOVES) {
            assert_true(now_ns - moved_ns >= rule.rest_ns);
            moved_ns = now_ns;
        }
        for (uint32_t i = 0; i < UNITS; i++)
            kinds[units[i].role]++;
        assert_true(kinds[UNIT_PREFILL] && kinds[UNIT_DECODE]);
    }
    assert_true(moved_ns > 0);
}
