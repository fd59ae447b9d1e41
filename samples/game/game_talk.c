/* game_talk.c - see game_talk.h. */
#include "game_talk.h"

#include <stdlib.h>
#include <string.h>

#include "game_gpu.h"
#include "game_text.h"

enum { CONTEXT = 1024 };
static const double letters_per_second = 30;

/* ---- Lines ---------------------------------------------------------------------------------------- */

static void set_text(sample_text *text, const char *bytes, size_t len)
{
    text->len = 0;
    text_append(text, bytes, len);
}

static void forget_lines(talk *talk)
{
    while (talk->n_lines > 0) free(talk->lines[--talk->n_lines].text);
}

static void keep_line(talk *talk, int speaker, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = must_realloc(NULL, size);
    memcpy(copy, text, size);
    talk->lines[talk->n_lines++] = (talk_said){speaker, copy};
    if (talk->options.verbose) fprintf(stderr, "%s: %s\n", script_personas[speaker].name, text);
}

/* The next opening line in one of the wanted languages. */
static const opening *choose_opening(talk *talk)
{
    for (size_t tried = 0; tried < script_n_openings; tried++) {
        const opening *opening = &script_openings[talk->next_opening++ % script_n_openings];
        if (opening->chinese ? talk->options.chinese : talk->options.english) return opening;
    }
    return &script_openings[0];
}

static void enter(talk *talk, talk_phase phase)
{
    talk->phase = phase;
    talk->phase_time = 0;
}

static void begin_exchange(talk *talk)
{
    forget_lines(talk);
    talk->opening = choose_opening(talk);
    talk->speaker = talk->opening->speaker;
    set_text(&talk->bubbles[talk->speaker], "", 0);
    enter(talk, TALK_OPENING);
}

void talk_begin(talk *talk, const talk_options *options)
{
    memset(talk, 0, sizeof *talk);
    talk->options = *options;
    begin_exchange(talk);
}

/* ---- Asking the model ----------------------------------------------------------------------------- */

/* The session of who speaks, in the language of the exchange. */
static vklm_session *session_of(const talk *talk)
{
    return talk->sessions[talk->speaker][talk->opening->chinese];
}

/* The exchange from the speaker's side. Some chat formats want the user to begin. */
static vklm_status set_chat(talk *talk, vklm_error *error)
{
    vklm_message messages[TALK_MOST_LINES + 2];
    size_t count = 0;
    messages[count++] = (vklm_message){"system", script_instruction(talk->speaker, talk->opening->chinese)};
    if (talk->lines[0].speaker == talk->speaker)
        messages[count++] = (vklm_message){"user", talk->opening->chinese ? "你先说。" : "You begin."};
    for (size_t i = 0; i < talk->n_lines; i++) {
        const char *role = talk->lines[i].speaker == talk->speaker ? "assistant" : "user";
        messages[count++] = (vklm_message){role, talk->lines[i].text};
    }
    return vklm_session_set_chat(session_of(talk), messages, count, error, NULL);
}

static void add_line(sample_text *text, int speaker, const char *line)
{
    const char *name = script_personas[speaker].name;
    text_append(text, name, strlen(name));
    text_append(text, ":", 1);
    if (*line) text_append(text, " ", 1);
    text_append(text, line, strlen(line));
}

static void begin_play(sample_text *text, bool chinese)
{
    const char *scene = chinese ? "夜里，猫头鹰Orla和小狐狸Mo 墨在湖边聊天。\n\n"
                                : "At night by a lake, Orla the owl and Mo 墨 the fox talk.\n\n";
    text_append(text, scene, strlen(scene));
}

/* Makes a text the session's history. */
static vklm_status set_session_text(const talk *talk, vklm_session *session, const sample_text *text, vklm_error *error)
{
    vklm_token ids[CONTEXT];
    size_t n_ids = 0;
    const vklm_status status = vklm_tokenize(vklm_model_vocab(talk->model), text->bytes, text->len, VKLM_ADD_SPECIAL,
                                             error, ids, CONTEXT, &n_ids);
    return status == VKLM_OK ? vklm_session_set_ids(session, ids, n_ids, error, NULL) : status;
}

/* The same as a play, for a model that only continues text. */
static vklm_status set_play(talk *talk, vklm_error *error)
{
    sample_text text = {0};
    begin_play(&text, talk->opening->chinese);
    for (size_t i = 0; i < talk->n_lines; i++) {
        add_line(&text, talk->lines[i].speaker, talk->lines[i].text);
        text_append(&text, "\n", 1);
    }
    add_line(&text, talk->speaker, "");
    const vklm_status status = set_session_text(talk, session_of(talk), &text, error);
    free(text.bytes);
    return status;
}

static void give_up(talk *talk, const char *why)
{
    talk->failed = true;
    gpu_fail("%s", why);
    enter(talk, TALK_PAUSE);
}

static void ask(talk *talk)
{
    vklm_error error;
    const vklm_generate_params params = {
        .struct_size = sizeof params,
        .max_tokens = talk->options.max_tokens,
        .sampling = {.temperature = 0.7f, .repeat_penalty = 1.1f, .seed = talk->options.seed + talk->n_replies}};
    talk->digested = 0;
    talk->line_over = false;
    set_text(&talk->bubbles[talk->speaker], "", 0);
    enter(talk, TALK_REPLY);
    vklm_status status = talk->play ? set_play(talk, &error) : set_chat(talk, &error);
    if (status == VKLM_OK) status = vklm_session_generate(session_of(talk), &params, &error);
    if (status != VKLM_OK) give_up(talk, error.text);
}

/* ---- Taking what it says -------------------------------------------------------------------------- */

static void add_text(talk *talk, const char *bytes, size_t len)
{
    sample_text *bubble = &talk->bubbles[talk->speaker];
    for (size_t i = 0; i < len; i++) {
        const bool blank = bytes[i] == ' ' || bytes[i] == '\n' || bytes[i] == '\t' || bytes[i] == '\r';
        if (!blank)
            text_append(bubble, &bytes[i], 1);
        else if (bubble->len > 0 && bubble->bytes[bubble->len - 1] != ' ')
            text_append(bubble, " ", 1);
    }
}

/* Where the last whole sentence of a reply that was cut off ends; 0: it has none. */
static size_t last_sentence(const char *text, size_t len)
{
    size_t end = 0;
    for (size_t at = 0; at < len;) {
        const uint32_t c = text_decode(text, len, &at);
        if (c == '.' || c == '!' || c == '?' || c == 0x3002 || c == 0xFF01 || c == 0xFF1F) end = at;
    }
    return end;
}

static void end_reply(talk *talk, bool cut_off)
{
    sample_text *bubble = &talk->bubbles[talk->speaker];
    while (bubble->len > 0 && bubble->bytes[bubble->len - 1] == ' ') bubble->bytes[--bubble->len] = '\0';
    const size_t whole = cut_off ? last_sentence(bubble->bytes, bubble->len) : bubble->len;
    if (whole > 0) {
        bubble->len = whole;
        bubble->bytes[whole] = '\0';
    } else {
        text_append(bubble, "…", strlen("…"));
    }
    talk->n_replies++;
    keep_line(talk, talk->speaker, bubble->bytes);
    enter(talk, TALK_PAUSE);
}

static void take_token(talk *talk, const vklm_event *event)
{
    const sample_text *bubble = &talk->bubbles[talk->speaker];
    const char *end = talk->play ? memchr(event->text, '\n', event->text_len) : NULL;
    talk->n_tokens++;
    if (talk->line_over) return; /* made before the cancel */
    talk->mouths[talk->speaker] = 1;
    add_text(talk, event->text, end ? (size_t)(end - event->text) : event->text_len);
    talk->line_over = end && bubble->len > 0;
    if (talk->line_over) vklm_session_cancel(session_of(talk));
}

static void take_event(talk *talk, const vklm_event *event)
{
    switch (event->kind) {
    case VKLM_EVENT_PROGRESS: talk->digested = (float)event->n_done / (float)event->n_total; break;
    case VKLM_EVENT_TOKEN: take_token(talk, event); break;
    case VKLM_EVENT_DONE:
        if (event->reason == VKLM_DONE_ERROR)
            give_up(talk, event->text);
        else
            end_reply(talk, event->reason == VKLM_DONE_LENGTH || event->reason == VKLM_DONE_CONTEXT_FULL);
        break;
    default: break;
    }
}

/* ---- Waking ---------------------------------------------------------------------------------------- */

/* Has the model digest what a speaker is told in front of every exchange, so that the first reply is not late. */
static vklm_status wake(talk *talk, int speaker, bool chinese, vklm_error *error)
{
    vklm_model_info info;
    vklm_model_get_info(talk->model, &info);
    const vklm_session_params params = {.struct_size = sizeof params,
                                        .context = info.context_length < CONTEXT ? info.context_length : CONTEXT,
                                        .chunk = talk->options.chunk};
    const vklm_generate_params digest = {.struct_size = sizeof digest, .prompt_only = true};
    const vklm_message instruction = {"system", script_instruction(speaker, chinese)};
    vklm_session **session = &talk->sessions[speaker][chinese];
    sample_text text = {0};
    begin_play(&text, chinese);
    vklm_status status = vklm_session_create(talk->model, &params, error, session);
    if (status == VKLM_OK)
        status = talk->play ? set_session_text(talk, *session, &text, error)
                            : vklm_session_set_chat(*session, &instruction, 1, error, NULL);
    free(text.bytes);
    if (status == VKLM_OK) status = vklm_session_generate(*session, &digest, error);
    talk->n_asleep++;
    return status;
}

bool talk_use_model(talk *talk, vklm_model *model)
{
    const vklm_vocab *vocab = vklm_model_vocab(model);
    vklm_model_info info;
    vklm_error error;
    vklm_model_get_info(model, &info);
    if (!vocab) return gpu_fail("the model cannot speak, for it has no tokenizer that vklm knows: %s", info.no_vocab);
    talk->play = vklm_chat_family(vocab) == NULL;
    talk->model = model;
    talk->n_asleep = 0;
    for (int i = 0; i < 2 * SPEAKERS; i++) {
        const bool chinese = i >= SPEAKERS;
        if (!(chinese ? talk->options.chinese : talk->options.english)) continue;
        if (wake(talk, i % SPEAKERS, chinese, &error) == VKLM_OK) continue;
        talk->model = NULL;
        return gpu_fail("%s", error.text);
    }
    talk->n_sessions = talk->n_asleep;
    enter(talk, TALK_WAKING);
    return true;
}

void talk_end(talk *talk)
{
    for (int i = 0; i < SPEAKERS; i++) {
        vklm_session_destroy(&talk->sessions[i][0]);
        vklm_session_destroy(&talk->sessions[i][1]);
        free(talk->bubbles[i].bytes);
        talk->bubbles[i] = (sample_text){0};
    }
    forget_lines(talk);
    talk->model = NULL;
}

/* Counts who has digested the instruction; when all have, the first exchange begins anew. */
static void take_waking(talk *talk)
{
    vklm_event event;
    for (int i = 0; i < 2 * SPEAKERS; i++) {
        vklm_session *session = talk->sessions[i % SPEAKERS][i / SPEAKERS];
        while (session && vklm_session_next_event(session, &event)) {
            if (event.kind != VKLM_EVENT_DONE) continue;
            talk->n_asleep--;
            if (event.reason == VKLM_DONE_ERROR)
                give_up(talk, event.text);
        }
    }
    if (talk->failed) talk->model = NULL; /* the script alone, then */
    talk->failed = false;
    if (talk->n_asleep > 0 && talk->model) return;
    talk->next_opening = 0;
    begin_exchange(talk);
}

/* ---- Time ----------------------------------------------------------------------------------------- */

/* Shows the opening line as far as it has been said by now. */
static void say_opening(talk *talk)
{
    const char *line = talk->opening->text;
    const size_t len = strlen(line);
    const double letters = talk->options.pause > 0 ? talk->phase_time * letters_per_second : (double)len;
    size_t at = 0;
    for (double n = 0; at < len && n < letters; n++) text_decode(line, len, &at);
    if (at > talk->bubbles[talk->speaker].len) talk->mouths[talk->speaker] = 1;
    set_text(&talk->bubbles[talk->speaker], line, at);
    if (at < len) return;
    keep_line(talk, talk->speaker, line);
    enter(talk, TALK_PAUSE);
}

static void go_on(talk *talk)
{
    const bool over = !talk->model || talk->failed || talk->n_lines > (size_t)talk->options.replies;
    talk->failed = false;
    if (over) {
        begin_exchange(talk);
    } else {
        talk->speaker = 1 - talk->speaker;
        ask(talk);
    }
}

void talk_update(talk *talk, double seconds)
{
    talk->phase_time += seconds;
    for (int i = 0; i < SPEAKERS; i++) talk->mouths[i] *= seconds < 0.25 ? 1 - 4 * (float)seconds : 0;
    if (talk->phase == TALK_WAKING) {
        take_waking(talk);
    } else if (talk->phase == TALK_OPENING) {
        say_opening(talk);
    } else if (talk->phase == TALK_REPLY) {
        vklm_event event;
        while (talk->phase == TALK_REPLY && vklm_session_next_event(session_of(talk), &event))
            take_event(talk, &event);
    }
    /* Without a model there is nothing to wait for, so the line stays longer. */
    const double pause = talk->model ? talk->options.pause : talk->options.pause + 2;
    if (talk->phase == TALK_PAUSE && talk->phase_time >= pause) go_on(talk);
}
