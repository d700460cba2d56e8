/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/pass.h"

#include "compute/model/moves.h"

void pass_progress(const struct pass *pass) {
    struct model *model = pass->model;
    for (uint32_t lane = 0; lane < model->lane_count; lane++)
        if (model->lanes[lane].exchange) exchange_progress(model->lanes[lane].exchange);
    moves_progress(model);
}
