/* desktop_report.h - how well the window kept up: the event loop's turns, by what the model was doing.
 *
 * A gap is the time from one turn to the next, a time in which the window could not have answered: drawing, the
 * model's share, and waiting for events, for which a busy loop has at most some milliseconds. Of the idle loop's
 * turns, which wait as long as nothing happens, the wait does not count.
 */
#ifndef DESKTOP_REPORT_H
#define DESKTOP_REPORT_H

#include "desktop_model.h"

typedef struct report_phase {
    uint64_t turns, ns, longest_ns;
    uint64_t longest_model_ns, longest_draw_ns;
    double cpu_s; /* of the whole process */
} report_phase;

typedef struct report {
    report_phase phases[MODEL_WRITING + 1];
    model_state phase; /* of the turn that is going on */
    uint64_t begin, last;
    double cpu;
} report;

void report_begin(report *r);

/* A turn ends; the next has the state given. */
void report_turn(report *r, model_state next);

/* An idle loop has waited until now. */
void report_waited(report *r);

/* Parts of the turn, that began at clock_ns() `begin`. */
void report_model(report *r, uint64_t begin);
void report_draw(report *r, uint64_t begin);

/* On stdout. */
void report_print(const report *r);

#endif
