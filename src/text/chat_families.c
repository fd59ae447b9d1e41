/* chat_families.c - chat formats as data: what a template of each family contains, and what it renders.
 *
 * A file's template is a Jinja program; instead of running it, its own distinctive text tells which
 * of the known formats it is. The first row that fits wins, so narrow rows stand before wide ones.
 * A row must not claim a template that renders something else: a template with an unknown default
 * system message, say, is no plain ChatML. Where a template writes today's date, the rows write the
 * date that Meta's templates fall back on: a prompt should not change from day to day.
 *
 * A system message that the original template would refuse or silently drop goes into a user turn.
 */
#include "text/chat_families.h"

#include <string.h>

#define BOS VKI_CHAT_BOS
#define EOS VKI_CHAT_EOS

#define CHATML_TURN(role) {"<|im_start|>" role "\n", "<|im_end|>\n"}
#define CHATML_TURNS                                                                               \
    .system = CHATML_TURN("system"), .user = CHATML_TURN("user"),                                  \
    .assistant = CHATML_TURN("assistant")
#define CHATML_REPLY "<|im_start|>assistant\n"

#define LLAMA3_HEAD(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3_TURNS                                                                               \
    .user = {LLAMA3_HEAD("user"), "<|eot_id|>"},                                                   \
    .assistant = {LLAMA3_HEAD("assistant"), "<|eot_id|>"}, .reply = LLAMA3_HEAD("assistant")
#define LLAMA3_DATE "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

#define SYSTEM_IN_USER {"", "\n\n"}
#define MISTRAL VKI_CHAT_MERGE_TURNS

#define DEEPSEEK_TURNS(thoughts)                                                                   \
    .begin = BOS, .system = {"", ""}, .user = {"<｜User｜>", ""},                                  \
    .assistant = {"<｜Assistant｜>" thoughts, EOS}

#define GRANITE_TURN(role) {"<|start_of_role|>" role "<|end_of_role|>", "<|end_of_text|>\n"}
#define GRANITE_TURNS                                                                              \
    .system = GRANITE_TURN("system"), .user = GRANITE_TURN("user"),                                \
    .assistant = GRANITE_TURN("assistant"), .reply = "<|start_of_role|>assistant<|end_of_role|>"

#define PHI3_TURN(role) {"<|" role "|>\n", "<|end|>\n"}

static const vki_chat_family families[] = {
    {"smollm", {"<|im_start|>", "named SmolLM, trained by Hugging Face"}, {"## Metadata"},
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     CHATML_TURNS, .reply = CHATML_REPLY},
    {"qwen2.5", {"<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     CHATML_TURNS, .reply = CHATML_REPLY},
    {"qwen2", {"<|im_start|>system\nYou are a helpful assistant.<|im_end|>"},
     .default_system = "You are a helpful assistant.", CHATML_TURNS, .reply = CHATML_REPLY},
    {"qwen3.5", {"<|im_start|>", "</think>", "'<think>\n' }}"}, {"<|im_start|>system\nYou are"},
     .flags = VKI_CHAT_TRIM | VKI_CHAT_DROP_THOUGHTS | VKI_CHAT_DROP_NEWLINES,
     CHATML_TURNS, .reply = CHATML_REPLY "<think>\n"},
    {"qwen3-thinking", {"<|im_start|>assistant\n<think>\n'", "</think>"}, {"<|im_start|>system\nYou are"},
     .flags = VKI_CHAT_DROP_THOUGHTS | VKI_CHAT_DROP_NEWLINES,
     CHATML_TURNS, .reply = CHATML_REPLY "<think>\n"},
    {"qwen3", {"<|im_start|>", "'</think>'"}, {"<|im_start|>system\nYou are", "assistant\n<think>"},
     .flags = VKI_CHAT_DROP_THOUGHTS | VKI_CHAT_DROP_NEWLINES, CHATML_TURNS, .reply = CHATML_REPLY},
    {"phi4", {"<|im_start|>", "<|im_sep|>"}, {"You are Phi"},
     .system = {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     .user = {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     .assistant = {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     .reply = "<|im_start|>assistant<|im_sep|>"},
    {"chatml", {"<|im_start|>", "<|im_end|>"}, {"<|im_start|>system\nYou are", "## Metadata", "think>"},
     .flags = VKI_CHAT_BOS_IF_NAMED, CHATML_TURNS, .reply = CHATML_REPLY},

    {"llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date: December 2023", "Today Date: "},
     .flags = VKI_CHAT_TRIM, .begin = BOS, .default_system = "",
     .system = {LLAMA3_HEAD("system") LLAMA3_DATE, "<|eot_id|>"}, LLAMA3_TURNS},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}, {"Cutting Knowledge Date", "function", "think>"},
     .flags = VKI_CHAT_TRIM, .begin = BOS,
     .system = {LLAMA3_HEAD("system"), "<|eot_id|>"}, LLAMA3_TURNS},
    {"llama2", {"[INST]", "<<SYS>>", "bos_token + '[INST] '"},
     .flags = VKI_CHAT_TRIM | VKI_CHAT_SYSTEM_FIRST | VKI_CHAT_MERGE_TURNS,
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"}, .user = {BOS "[INST] ", " [/INST]"},
     .assistant = {" ", " " EOS}},

    {"mistral-v7", {"[SYSTEM_PROMPT] ", "[INST] "}, .flags = MISTRAL, .begin = BOS,
     .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", EOS}},
    {"mistral-v7-tekken", {"[SYSTEM_PROMPT]", "[INST]"}, {"[THINK]"}, .flags = MISTRAL, .begin = BOS,
     .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, .user = {"[INST]", "[/INST]"},
     .assistant = {"", EOS}},
    {"mistral-v3-tekken", {"\"[INST]\" + message", "\"[/INST]\""},
     .flags = MISTRAL | VKI_CHAT_SYSTEM_LAST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"[INST]", "[/INST]"}, .assistant = {"", EOS}},
    {"mistral-v3", {"\"[INST] \" + message", "\"[/INST]\"", "\" \" + message"},
     .flags = MISTRAL | VKI_CHAT_TRIM | VKI_CHAT_SYSTEM_LAST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"[INST] ", "[/INST]"}, .assistant = {" ", EOS}},
    {"mistral-v3", {"[INST]", "' ' + message['content'] + '[/INST]'"}, {"<<SYS>>"},
     .flags = MISTRAL | VKI_CHAT_SYSTEM_FIRST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"[INST] ", "[/INST]"}, .assistant = {"", EOS}},
    {"mistral-v1", {"' [INST] '", "' [/INST]'", "' ' + message"}, {"<<SYS>>"},
     .flags = MISTRAL | VKI_CHAT_SYSTEM_FIRST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {" [INST] ", " [/INST]"}, .assistant = {" ", EOS}},
    {"mistral-v0.1", {"'[INST] ' + message['content'] + ' [/INST]'", "eos_token + ' '"}, {"<<SYS>>"},
     .flags = MISTRAL | VKI_CHAT_SYSTEM_FIRST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"[INST] ", " [/INST]"}, .assistant = {"", EOS " "}},
    {"mistral-v0.2", {"'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token"},
     {"<<SYS>>"}, .flags = MISTRAL | VKI_CHAT_SYSTEM_FIRST, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"[INST] ", " [/INST]"}, .assistant = {"", EOS}},

    {"gemma", {"<start_of_turn>", "<end_of_turn>", "model"},
     .flags = VKI_CHAT_TRIM | VKI_CHAT_SYSTEM_FIRST | VKI_CHAT_MERGE_TURNS, .begin = BOS,
     .system = SYSTEM_IN_USER, .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"}, .reply = "<start_of_turn>model\n"},

    {"phi3-first", {"'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'"},
     .flags = VKI_CHAT_BOS_IF_NAMED | VKI_CHAT_SYSTEM_FIRST, .system = SYSTEM_IN_USER,
     .user = PHI3_TURN("user"), .assistant = PHI3_TURN("assistant"), .reply = "<|assistant|>\n"},
    {"phi3", {"'<|user|>\n' + message['content'] + '<|end|>\n'"}, .flags = VKI_CHAT_BOS_IF_NAMED,
     .system = PHI3_TURN("system"), .user = PHI3_TURN("user"), .assistant = PHI3_TURN("assistant"),
     .reply = "<|assistant|>\n"},
    {"phi3", {"'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n'"},
     .flags = VKI_CHAT_BOS_IF_NAMED,
     .system = PHI3_TURN("system"), .user = PHI3_TURN("user"), .assistant = PHI3_TURN("assistant"),
     .reply = "<|assistant|>\n"},
    {"phi4-mini", {"'<|' + message['role'] + '|>'", "'<|end|>'", "'<|assistant|>'"},
     .system = {"<|system|>", "<|end|>"}, .user = {"<|user|>", "<|end|>"},
     .assistant = {"<|assistant|>", "<|end|>"}, .reply = "<|assistant|>"},
    {"zephyr", {"'<|user|>\n' + message['content'] + eos_token", "<|assistant|>"},
     .system = {"<|system|>\n", EOS "\n"}, .user = {"<|user|>\n", EOS "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"}, .reply = "<|assistant|>\n"},
    {"olmo2", {"'<|user|>\n' + message['content'] + '\n'", "message['content'] + eos_token + '\n'"},
     .flags = VKI_CHAT_BOS_IF_NAMED,
     .system = {"<|system|>\n", "\n"}, .user = {"<|user|>\n", "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"}, .reply = "<|assistant|>\n"},
    {"glm4", {"[gMASK]<sop>", "<|assistant|>"}, {"think>"}, .begin = "[gMASK]<sop>",
     .system = {"<|system|>\n", ""}, .user = {"<|user|>\n", ""}, .assistant = {"<|assistant|>\n", ""},
     .reply = "<|assistant|>"},

    {"deepseek-v3.1", {"<｜User｜>", "'<｜Assistant｜></think>'"}, .flags = VKI_CHAT_DROP_THOUGHTS,
     DEEPSEEK_TURNS("</think>"), .reply = "<｜Assistant｜></think>"},
    {"deepseek-r1", {"<｜User｜>", "'<｜Assistant｜><think>\n'"}, .flags = VKI_CHAT_DROP_THOUGHTS,
     DEEPSEEK_TURNS(""), .reply = "<｜Assistant｜><think>\n"},
    {"deepseek-v3", {"<｜User｜>", "<｜Assistant｜>"}, {"<｜Assistant｜></think>", "<｜Assistant｜><think>"},
     .flags = VKI_CHAT_DROP_THOUGHTS, DEEPSEEK_TURNS(""), .reply = "<｜Assistant｜>"},
    {"deepseek-v2", {"'User: ' + message['content'] + '\n\n'", "'Assistant: ' + message['content'] + eos_token"},
     .begin = BOS, .system = {"", "\n\n"}, .user = {"User: ", "\n\n"}, .assistant = {"Assistant: ", EOS},
     .reply = "Assistant:"},
    {"deepseek-coder", {"### Instruction:", "### Response:", "<|EOT|>"}, .begin = BOS,
     .default_system =
         "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek "
         "Company, and you only answer questions related to computer science. For politically sensitive "
         "questions, security and privacy issues, and other non-computer science questions, you will "
         "refuse to answer\n",
     .system = {"", ""}, .user = {"### Instruction:\n", "\n"},
     .assistant = {"### Response:\n", "\n<|EOT|>\n"}, .reply = "### Response:\n"},

    {"granite-3.3", {"<|start_of_role|>", "Knowledge Cutoff Date: April 2024. Today's Date: "},
     .default_system = "Knowledge Cutoff Date: April 2024. Today's Date: July 26, 2024. You are Granite, "
                       "developed by IBM. You are a helpful AI assistant.",
     GRANITE_TURNS},
    {"granite-3.1", {"<|start_of_role|>", "Knowledge Cutoff Date: April 2024.\nToday's Date: "},
     .default_system = "Knowledge Cutoff Date: April 2024.\nToday's Date: July 26, 2024.\nYou are Granite, "
                       "developed by IBM. You are a helpful AI assistant.",
     GRANITE_TURNS},
    {"granite-3.0", {"<|start_of_role|>", "<|end_of_role|>"}, {"Knowledge Cutoff Date", "default_system"},
     GRANITE_TURNS},
};

/* The length of `words` at the start of text, where a newline may also be written as backslash n; 0 where
 * they differ. */
static bool begins_with(const char *text, size_t len, const char *words)
{
    for (; *words; words++) {
        if (len == 0) return false;
        const bool escaped = *words == '\n' && *text == '\\' && len >= 2 && text[1] == 'n';
        if (*text != *words && !escaped) return false;
        text += escaped ? 2 : 1;
        len -= escaped ? 2 : 1;
    }
    return true;
}

bool vki_chat_mentions(vki_string chat_template, const char *words)
{
    const char *text = chat_template.text;
    size_t left = chat_template.len;
    while (left) {
        const char *next = memchr(text, words[0], left);
        if (!next) return false;
        left -= (size_t)(next - text);
        text = next;
        if (begins_with(text, left, words)) return true;
        text++;
        left--;
    }
    return false;
}

static bool fits(const vki_chat_family *family, vki_string chat_template)
{
    enum { N_MARKS = sizeof family->marks / sizeof *family->marks };
    for (size_t i = 0; i < N_MARKS; i++) {
        if (family->marks[i] && !vki_chat_mentions(chat_template, family->marks[i])) return false;
        if (family->strangers[i] && vki_chat_mentions(chat_template, family->strangers[i])) return false;
    }
    return true;
}

const vki_chat_family *vki_chat_find(vki_string chat_template)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (fits(&families[i], chat_template)) return &families[i];
    return NULL;
}
