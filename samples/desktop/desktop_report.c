/* desktop_report.c - see desktop_report.h. */
#include "desktop_report.h"

#include <time.h>

/* Of all threads. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

void report_begin(report *r)
{
    *r = (report){.begin = clock_ns(), .cpu = cpu_seconds()};
    r->last = r->begin;
}

static void longest(uint64_t *most, uint64_t begin, uint64_t end)
{
    if (end - begin > *most) *most = end - begin;
}

void report_turn(report *r, model_state next)
{
    report_phase *phase = &r->phases[r->phase];
    const uint64_t now = clock_ns();
    const double cpu = cpu_seconds();
    phase->turns++;
    phase->ns += now - r->begin;
    phase->cpu_s += cpu - r->cpu;
    longest(&phase->longest_ns, r->last, now);
    r->begin = r->last = now;
    r->cpu = cpu;
    r->phase = next;
}

void report_waited(report *r)
{
    r->last = clock_ns();
}

void report_model(report *r, uint64_t begin)
{
    longest(&r->phases[r->phase].longest_model_ns, begin, clock_ns());
}

void report_draw(report *r, uint64_t begin)
{
    longest(&r->phases[r->phase].longest_draw_ns, begin, clock_ns());
}

void report_print(const report *r)
{
    static const char *const names[] = {"no model", "loading", "idle", "reading", "writing"};
    printf("%-10s %8s %10s %14s %14s %14s %8s\n", "", "turns", "seconds", "longest gap", "longest step",
           "longest draw", "CPU");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const report_phase *phase = &r->phases[i];
        const double seconds = (double)phase->ns * 1e-9;
        if (phase->turns == 0) continue;
        printf("%-10s %8llu %10.2f %11.1f ms %11.1f ms %11.1f ms %6.1f %%\n", names[i],
               (unsigned long long)phase->turns, seconds, (double)phase->longest_ns * 1e-6,
               (double)phase->longest_model_ns * 1e-6, (double)phase->longest_draw_ns * 1e-6,
               seconds > 0 ? 100 * phase->cpu_s / seconds : 0);
    }
}
