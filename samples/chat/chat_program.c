/* chat_program.c - vklm-chat: talk with a model at a terminal, or ask it once from a script.
 *
 * Standard output carries replies and nothing else; everything else is said on stderr or at the
 * terminal. The files beside this one: chat_conversation (messages and replies), chat_commands,
 * chat_input (typing), chat_interrupt (Ctrl-C).
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat_commands.h"
#include "chat_conversation.h"
#include "chat_input.h"
#include "chat_interrupt.h"
#include "sample_setup.h"

enum { EXIT_INTERRUPTED = 130 }; /* 128 + SIGINT, as shells have it */

/* An option that was not given; the library's zero, "the default", is a value people give. */
#define NOT_GIVEN INT64_MIN

typedef struct chat_options {
    sample_setup setup;
    const char *prompt, *system;
    bool raw;
    int64_t max_tokens, context, top_k, repeat_last_n, seed;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    args_texts stop, biases;
    vklm_logit_bias bias[ARGS_LIST_CAPACITY]; /* read from biases */
} chat_options;

static const char about[] =
    "    At a terminal, a conversation: type a message, get a reply. With -p, or with a prompt on\n"
    "    standard input, one reply. Given both, the prompt is the text of -p, a newline, and\n"
    "    standard input. Replies go to standard output, and nothing else does.\n"
    "\n"
    "    A model without a chat template continues the text as it stands; so does any with --raw.\n"
    "    Then a conversation is a series of texts that know nothing of each other.\n";

static const char after[] =
    "KEYS\n"
    "    Ctrl-C stops a reply; pressed again before it has stopped, it ends the program. At the\n"
    "    prompt it gives up the line. " INPUT_LEAVE_KEY " leaves. A line that ends in a backslash goes on in\n"
    "    the next" INPUT_PASTE_HELP ".\n"
    "\n"
    "COMMANDS\n"
    "    /help, /new, /system TEXT, /regen, /undo, /stats, /save FILE, /load FILE, /export FILE,\n"
    "    /quit\n"
    "\n"
    "FILES\n"
    "    " USER_CACHE_NAME "/pipelines*   what the driver compiled\n" INPUT_FILES_HELP
    "\n"
    ARGS_EXIT_STATUS ", 130 interrupted\n\n"
    "EXAMPLES\n"
    "    vklm-chat -m model.gguf\n"
    "    vklm-chat -m model.gguf -p 'Why is the sky blue?' --temp 0 -n 200\n"
    "    git diff | vklm-chat -m model.gguf -p 'Write a commit message for this change.'\n"
    "    vklm-chat -m model.gguf --raw -p 'Once upon a time'\n";

/* "15043+1.5" */
static bool read_bias(const char *text, vklm_logit_bias *bias)
{
    char *sign = NULL, *end = NULL;
    const long long id = strtoll(text, &sign, 10);
    if (sign == text || (*sign != '+' && *sign != '-') || id < 0 || id > INT32_MAX) return false;
    *bias = (vklm_logit_bias){(vklm_token)id, strtof(sign, &end)};
    return end != sign && *end == '\0';
}

static int read_biases(chat_options *o)
{
    for (size_t i = 0; i < o->biases.count; i++)
        if (!read_bias(o->biases.values[i], &o->bias[i]))
            return args_complain(o->setup.program, "--logit-bias takes a token's id, + or -, and a number, such as "
                                 "15043+1.5 or 15043-inf, not '%s'", o->biases.values[i]);
    return ARGS_GO;
}

static int parse(chat_options *o, int argc, char **argv)
{
    const args_option options[] = {
        {ARGS_TEXT, "-p, --prompt", "TEXT", &o->prompt, 0, 0, "Answer TEXT and leave."},
        {ARGS_TEXT, "-s, --system", "TEXT", &o->system, 0, 0, "The system prompt."},
        {ARGS_INTEGER, "-n, --tokens", "N", &o->max_tokens, 0, 1e6,
         "At most N tokens a reply. Default: until the model ends it, or as many as the context has."},
        {ARGS_INTEGER, "-c, --context", "N", &o->context, 0, 1e7,
         "Tokens that a conversation may have. Default: 4096, less where the model has less."},
        {ARGS_TEXTS, "--stop", "TEXT", &o->stop, 0, 0,
         "End a reply where TEXT comes up, without it. May be given several times."},
        {ARGS_FLAG, "--raw", NULL, &o->raw, 0, 0, "Continue the text, without a chat format."},
        {ARGS_HEADING, "Sampling, in this order; defaults from the model file where it has any",
         NULL, NULL, 0, 0, NULL},
        {ARGS_TEXTS, "--logit-bias", "ID+X|ID-X", &o->biases, 0, 0,
         "Add X to the logit of token ID (vklm-tokens tells ids), or subtract it; ID-inf: never that token. May be "
         "given several times."},
        {ARGS_REAL, "--repeat-penalty", "X", &o->repeat_penalty, 0.01, 100,
         "Divide the logits of recent tokens by X. Default: 1, off."},
        {ARGS_REAL, "--presence-penalty", "X", &o->presence_penalty, -100, 100,
         "Subtract X from the logits of recent tokens. Default: 0."},
        {ARGS_REAL, "--frequency-penalty", "X", &o->frequency_penalty, -100, 100,
         "Subtract X for each time that a token is among the recent ones. Default: 0."},
        {ARGS_INTEGER, "--repeat-last-n", "N", &o->repeat_last_n, -1, 1e7,
         "How many tokens count as recent; 0: no penalties; -1: the whole context. Default: 64."},
        {ARGS_INTEGER, "--top-k", "N", &o->top_k, 0, 1e7,
         "Choose from the N likeliest tokens; 0: from all. Default: 40."},
        {ARGS_REAL, "--top-p", "X", &o->top_p, 0, 1,
         "Choose from the likeliest that make up the probability X; 1: from all. Default: 0.95."},
        {ARGS_REAL, "--min-p", "X", &o->min_p, 0, 1,
         "Leave out tokens with less than X times the likeliest's probability; 0: none. "
         "Default: 0.05."},
        {ARGS_REAL, "--temp", "X", &o->temperature, 0, 100,
         "Temperature: higher is more daring; 0: always the likeliest token. Default: 0.8."},
        {ARGS_INTEGER, "--seed", "N", &o->seed, 0, 9007199254740992.0,
         "Makes a run repeatable; 0: another each time. Default: 0."},
        SETUP_OPTIONS(&o->setup, "-d, --device"),
        CACHE_OPTION(&o->setup),
    };
    const args_program program = {
        .name = o->setup.program,
        .purpose = "talk with a language model on any Vulkan GPU",
        .synopsis = "-m FILE [-p TEXT] [OPTION]... [< TEXT]",
        .about = about,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .after = after,
    };
    const int parsed = args_parse(&program, argc, argv);
    return parsed == ARGS_GO ? read_biases(o) : parsed;
}

/* ---- From options to the library's parameters ----------------------------------------------- */

/* To the library zero is the default; people's zero is `zero` there. */
static float real(double given, float zero)
{
    if (isnan(given)) return 0;
    return given == 0 ? zero : (float)given;
}

static int32_t integer(int64_t given, int32_t zero)
{
    if (given == NOT_GIVEN) return 0;
    return given == 0 ? zero : (int32_t)given;
}

static vklm_generate_params choose_generation(const chat_options *o)
{
    vklm_generate_params params = {
        .struct_size = sizeof params,
        .max_tokens = (uint32_t)o->max_tokens,
        .sampling =
            {
                .temperature = real(o->temperature, -1),
                .top_k = integer(o->top_k, -1),
                .top_p = real(o->top_p, FLT_MIN), /* the likeliest alone */
                .min_p = real(o->min_p, -1),
                .repeat_penalty = real(o->repeat_penalty, 1),
                .presence_penalty = real(o->presence_penalty, 0),
                .frequency_penalty = real(o->frequency_penalty, 0),
                .repeat_last_n = integer(o->repeat_last_n, 0),
                .seed = (uint64_t)o->seed,
            },
        .bias = o->bias,
        .n_bias = o->biases.count,
        .stop = o->stop.values,
        .n_stop = o->stop.count,
    };
    if (o->repeat_last_n == 0) {
        params.sampling.repeat_penalty = 1;
        params.sampling.presence_penalty = params.sampling.frequency_penalty = 0;
    }
    return params;
}

/* The text of -p, and of stdin where that is no terminal; false where it cannot be read. */
static bool read_prompt(const chat_options *o, sample_text *prompt)
{
    if (o->prompt) text_append(prompt, o->prompt, strlen(o->prompt));
    if (!is_terminal(stdin)) {
        sample_text input = {0};
        const bool good = text_append_file(&input, stdin);
        if (!good) setup_say(&o->setup, "standard input cannot be read");
        if (prompt->len > 0 && input.len > 0) text_append(prompt, "\n", 1);
        text_append(prompt, input.bytes, input.len);
        free(input.bytes);
        if (!good) return false;
        /* The newline that ends a file is not meant. */
        if (prompt->len > 0 && prompt->bytes[prompt->len - 1] == '\n')
            prompt->bytes[--prompt->len] = '\0';
    }
    return true;
}

/* ---- The two ways to run -------------------------------------------------------------------- */

static int answer_once(conversation *c, const char *prompt)
{
    conversation_add_user(c, prompt);
    switch (conversation_reply(c)) {
    case REPLY_DONE: return 0;
    case REPLY_STOPPED: return EXIT_INTERRUPTED;
    case REPLY_REFUSED:
    case REPLY_FATAL: break;
    }
    return 1;
}

static void greet(const conversation *c)
{
    vklm_device_info device;
    vklm_device_get_info(c->setup->device, &device);
    const vklm_model_info *info = &c->setup->info;
    fprintf(stderr, "%s on %s. /help lists the commands, " INPUT_LEAVE_KEY " leaves.\n",
            info->name[0] ? info->name : c->setup->model_path, device.name);
}

static int converse(conversation *c)
{
    greet(c);
    chat_input *input = input_open(c->setup->program);
    sample_text line = {0};
    reply_result reply = REPLY_DONE;
    for (input_result typed; (typed = input_read(input, &line)) != INPUT_END;) {
        if (typed == INPUT_LEFT || line.len == 0) continue;
        if (line.bytes[0] == '/') {
            const command_result command = command_run(c, line.bytes);
            if (command == COMMAND_QUIT) break;
            if (command == COMMAND_DONE) continue;
        } else {
            conversation_add_user(c, line.bytes);
        }
        reply = conversation_reply(c);
        if (reply == REPLY_FATAL) break;
        if (reply == REPLY_REFUSED) fprintf(stderr, "The message is dropped.\n");
    }
    free(line.bytes);
    input_close(input);
    return reply == REPLY_FATAL ? 1 : 0;
}

/* Whether the prompt is continued as plain text; says why. */
static bool choose_raw(const chat_options *o)
{
    const char *why = o->raw ? "--raw" : "the file has no chat template that vklm knows";
    if (!o->raw && vklm_chat_family(vklm_model_vocab(o->setup.model))) return false;
    setup_say(&o->setup, "%s: the text is continued as it stands%s", why,
              o->system ? ", and the system prompt is not used" : "");
    return true;
}

/* prompt: NULL for a conversation. Returns the exit code. */
static int chat(chat_options *o, const char *prompt)
{
    interrupt_begin(NULL);
    const vklm_status opened = setup_open(&o->setup);
    interrupt_end();
    if (opened != VKLM_OK) return opened == VKLM_CANCELLED ? EXIT_INTERRUPTED : 1;
    if (!vklm_model_vocab(o->setup.model)) {
        setup_say(&o->setup, "%s has no tokenizer, so it cannot read text", o->setup.model_path);
        return 1;
    }
    conversation c = {.setup = &o->setup, .raw = choose_raw(o), .generate = choose_generation(o)};
    const vklm_session_params params = {.struct_size = sizeof params,
                                        .context = (uint32_t)o->context,
                                        .kv = (vklm_kv_type)o->setup.kv,
                                        .on_overflow = c.raw ? VKLM_OVERFLOW_REFUSE : VKLM_OVERFLOW_DROP,
                                        .keep_replaced = true};
    vklm_error error;
    int code = 1;
    if (vklm_session_create(o->setup.model, &params, &error, &c.session) != VKLM_OK) {
        setup_say(&o->setup, "%s", error.text);
    } else {
        if (!c.raw) conversation_set_system(&c, o->system);
        /* A model that never ends would go on for ever, dropping what is old. */
        if (!c.raw && !c.generate.max_tokens) c.generate.max_tokens = conversation_context(&c);
        code = prompt ? answer_once(&c, prompt) : converse(&c);
    }
    conversation_free(&c);
    vklm_session_destroy(&c.session);
    return code;
}

int main(int argc, char **argv)
{
    chat_options o = {
        .setup = {.program = "vklm-chat", .stop = interrupt_flag()},
        .top_k = NOT_GIVEN,
        .repeat_last_n = NOT_GIVEN,
        .temperature = NAN,
        .top_p = NAN,
        .min_p = NAN,
        .repeat_penalty = NAN,
        .presence_penalty = NAN,
        .frequency_penalty = NAN,
    };
    const int parsed = parse(&o, argc, argv);
    if (parsed != ARGS_GO) return parsed;
    if (o.setup.list_devices) return setup_list_devices(&o.setup);
    if (!setup_has_model(&o.setup)) return ARGS_USAGE;

    sample_text prompt = {0};
    if (!read_prompt(&o, &prompt)) return 1;
    const bool once = o.prompt != NULL || !is_terminal(stdin);
    int code = 0;
    if (once && prompt.len == 0)
        code =
            args_complain(o.setup.program, "the prompt is empty: give -p TEXT, or text on stdin");
    else
        code = chat(&o, once ? prompt.bytes : NULL);
    setup_close(&o.setup);
    free(prompt.bytes);
    return code;
}
