/* The prompts are the benchmarks' own, to the letter, mistakes of spelling included. */
#include "quant/files/benchmark.h"

/* clang-format off */
static const struct benchmark_task table[] = {
    {"infinitebench", "passkey",
     "There is an important info hidden inside a lot of irrelevant text. Find it and "
     "memorize it. I will quiz you about the important information.\n\n{context}\n\n"
     "{input}\n\nThe pass key is",
     6, .metric = "first-number"},
    {"infinitebench", "number_string",
     "There is an important info hidden inside a lot of irrelevant text. Find it. I will "
     "quiz you about the important information there.\n\n{context}\n\n{input}\n\nThe "
     "sequence of digits is",
     12, .metric = "first-number"},
    {"infinitebench", "kv_retrieval",
     "Extract the value corresponding to the specified key in the JSON object below.\n\n"
     "{context}\n\n{input}",
     50, .metric = "word"},
    {"infinitebench", "longbook_sum_eng",
     "Summarize the book below.\n\n{context}\n\nSummary:",
     1200, .metric = "rouge-lsum"},
    {"infinitebench", "longbook_choice_eng",
     "Read the book and answer the question.\n\n{context}\n\nQuestion: {input}\nA. {A}\n"
     "B. {B}\nC. {C}\nD. {D}\n\nThe letter of the correct answer is",
     40, .metric = "choice"},
    {"infinitebench", "longbook_qa_eng",
     "Read the book and answer the question. Be very concise in your answer.\n\n{context}"
     "\n\nQuestion: {input}\nAnswer:",
     40, .metric = "f1"},
    {"infinitebench", "longbook_qa_chn",
     "阅读以下书籍然后回答问题。\n\n{context}\n\n问题：{input}\n答案：",
     40, .metric = "f1-characters"},
    {"infinitebench", "math_find",
     "{prefix}\n\n{context}\n\n{input}",
     3, .metric = "value"},
    {"infinitebench", "math_calc",
     "Let us calculate the intermediate values of an expression.\n\nExpression: 1 + 3 + 4"
     "\nValues: [1, 4, 8]\n\nExpression: 8 - 3 + 2 - 4\nValues: [8, 5, 7, 3]\n\n"
     "Expression: {context}\nValues:",
     30000, .metric = "series"},
    {"infinitebench", "code_run",
     "There is a function called {func} in the following Python code.\n\n{context}\n\n"
     "Please compute the exact value of {func_call}. The value of {func_call} is",
     5, .metric = "last-integer"},
    {"infinitebench", "code_debug",
     "Following is a Python code where exactly one of the functions/methods has a "
     "deliberate error that makes it crash.\n\n{context}\n\nOptions:\nA. {A}\nB. {B}\nC. "
     "{C}\nD. {D}\n\nThe correct option is:",
     5, .metric = "function"},
    {"infinitebench", "longdialogue_qa_eng",
     "Below is a dialogue script where one random occurrence of a character name is "
     "replaced with \"$$MASK$$\", and you should try to guess who that character is.\n\n"
     "{context}\n\nThe name that has been replaced with $$MASK$$ is likely",
     40, .metric = "speaker"},
    {"longbench", "narrativeqa",
     "You are given a story, which can be either a novel or a movie script, and a "
     "question. Answer the question asconcisely as you can, using a single phrase if "
     "possible. Do not provide any explanation.\n\nStory: {context}\n\nNow, answer the "
     "question based on the story asconcisely as you can, using a single phrase if "
     "possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
     128, .metric = "f1"},
    {"longbench", "qasper",
     "You are given a scientific article and a question. Answer the question as concisely "
     "as you can, using a single phrase or sentence if possible. If the question cannot "
     "be answered based on the information in the article, write \"unanswerable\". If the "
     "question is a yes/no question, answer \"yes\", \"no\", or \"unanswerable\". Do not "
     "provide any explanation.\n\nArticle: {context}\n\n Answer the question based on the "
     "above article as concisely as you can, using a single phrase or sentence if "
     "possible. If the question cannot be answered based on the information in the "
     "article, write \"unanswerable\". If the question is a yes/no question, answer \"yes"
     "\", \"no\", or \"unanswerable\". Do not provide any explanation.\n\nQuestion: "
     "{input}\n\nAnswer:",
     128, .metric = "f1"},
    {"longbench", "multifieldqa_en",
     "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the "
     "following question based on the above text, only give me the answer and do not "
     "output any other words.\n\nQuestion: {input}\nAnswer:",
     64, .metric = "f1"},
    {"longbench", "multifieldqa_zh",
     "阅读以下文字并用中文简短回答：\n\n{context}\n\n"
     "现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。"
     "\n\n问题：{input}\n回答：",
     64, .metric = "f1-characters"},
    {"longbench", "hotpotqa",
     "Answer the question based on the given passages. Only give me the answer and do not "
     "output any other words.\n\nThe following are given passages.\n{context}\n\nAnswer "
     "the question based on the given passages. Only give me the answer and do not output "
     "any other words.\n\nQuestion: {input}\nAnswer:",
     32, .metric = "f1"},
    {"longbench", "2wikimqa",
     "Answer the question based on the given passages. Only give me the answer and do not "
     "output any other words.\n\nThe following are given passages.\n{context}\n\nAnswer "
     "the question based on the given passages. Only give me the answer and do not output "
     "any other words.\n\nQuestion: {input}\nAnswer:",
     32, .metric = "f1"},
    {"longbench", "musique",
     "Answer the question based on the given passages. Only give me the answer and do not "
     "output any other words.\n\nThe following are given passages.\n{context}\n\nAnswer "
     "the question based on the given passages. Only give me the answer and do not output "
     "any other words.\n\nQuestion: {input}\nAnswer:",
     32, .metric = "f1"},
    {"longbench", "dureader",
     "请基于给定的文章回答下述问题。\n\n文章：{context}\n\n"
     "请基于上述文章回答下面的问题。\n\n问题：{input}\n回答：",
     128, .metric = "rouge-l-characters"},
    {"longbench", "gov_report",
     "You are given a report by a government agency. Write a one-page summary of the "
     "report.\n\nReport:\n{context}\n\nNow, write a one-page summary of the report.\n\n"
     "Summary:",
     512, .metric = "rouge-l"},
    {"longbench", "qmsum",
     "You are given a meeting transcript and a query containing a question or "
     "instruction. Answer the query in one or more sentences.\n\nTranscript:\n{context}\n"
     "\nNow, answer the query based on the above meeting transcript in one or more "
     "sentences.\n\nQuery: {input}\nAnswer:",
     512, .metric = "rouge-l"},
    {"longbench", "multi_news",
     "You are given several news passages. Write a one-page summary of all news. \n\nNews:"
     "\n{context}\n\nNow, write a one-page summary of all the news.\n\nSummary:",
     512, .metric = "rouge-l"},
    {"longbench", "vcsum",
     ""
     "下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。"
     "\n会议记录：\n{context}\n\n会议总结：",
     512, .metric = "rouge-l-characters"},
    {"longbench", "trec",
     "Please determine the type of the question below. Here are some examples of "
     "questions.\n\n{context}\n{input}",
     64, .metric = "class", .raw = true, .first_line = true},
    {"longbench", "triviaqa",
     "Answer the question based on the given passage. Only give me the answer and do not "
     "output any other words. The following are some examples.\n\n{context}\n\n{input}",
     32, .metric = "f1", .raw = true, .first_line = true},
    {"longbench", "samsum",
     "Summarize the dialogue into a few short sentences. The following are some examples."
     "\n\n{context}\n\n{input}",
     128, .metric = "rouge-l", .raw = true, .first_line = true},
    {"longbench", "lsht",
     "请判断给定新闻的类别，下面是一些例子。\n\n{context}\n{input}",
     64, .metric = "class", .raw = true, .first_line = true},
    {"longbench", "passage_count",
     "There are some paragraphs below sourced from Wikipedia. Some of them may be "
     "duplicates. Please carefully read these paragraphs and determine how many unique "
     "paragraphs there are after removing duplicates. In other words, how many "
     "non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final "
     "count of unique paragraphs after removing duplicates. The output format should only "
     "contain the number, such as 1, 2, 3, and so on.\n\nThe final answer is: ",
     32, .metric = "count"},
    {"longbench", "passage_retrieval_en",
     "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine "
     "which paragraph the abstract is from.\n\n{context}\n\nThe following is an abstract."
     "\n\n{input}\n\nPlease enter the number of the paragraph that the abstract is from. "
     "The answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\nThe answer "
     "is: ",
     32, .metric = "paragraph"},
    {"longbench", "passage_retrieval_zh",
     ""
     "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。"
     "\n\n{context}\n\n下面是一个摘要\n\n{input}\n\n"
     "请输入摘要所属段落的编号。答案格式必须是\"段落1\"，\"段落2"
     "\"等格式\n\n答案是：",
     32, .metric = "paragraph"},
    {"longbench", "lcc",
     "Please complete the code given below. \n{context}Next line of code:\n",
     64, .metric = "edit", .raw = true},
    {"longbench", "repobench-p",
     "Please complete the code given below. \n{context}{input}Next line of code:\n",
     64, .metric = "edit", .raw = true},
    {"longbench-v2", "",
     "Please read the following text and answer the question below.\n\n<text>\n{context}\n"
     "</text>\n\nWhat is the correct answer to this question: {question}\nChoices:\n(A) "
     "{choice_A}\n(B) {choice_B}\n(C) {choice_C}\n(D) {choice_D}\n\nFormat your response "
     "as follows: \"The correct answer is (insert answer here)\".",
     128, .metric = "letter"},
    {"leval", "coursera",
     "Document is as follows. {context} \nQuestion: {instruction}.  Please directly give "
     "the answer without any additional output or explanation ",
     512, .metric = "exam-options", ITEM_CUT_WORDS, .prefix = "\nAnswer:",
     .system = "Now you are given a very long document. Please follow the instruction based on this "
     "document. For multi-choice questions, there could be a sinlge correct option or "
     "multiple correct options. Please only provide the letter corresponding to the "
     "answer (like A or AB) when answering. "},
    {"leval", "quality",
     "Document is as follows. {context} \nQuestion: {instruction}.  Please directly give "
     "the answer without any additional output or explanation ",
     512, .metric = "exam-option", ITEM_CUT_WORDS, .prefix = "\nAnswer:",
     .system = "Now you are given a very long document. Please follow the instruction based on this "
     "document. For multi-choice questions, there is only a sinlge correct option. Please "
     "only provide the letter corresponding to the answer (like A or B) when answering. "
     "For other questions, please directly give the concise and accurate answer. "},
    {"leval", "tpo",
     "Document is as follows. {context} \nQuestion: {instruction}.  Please directly give "
     "the answer without any additional output or explanation ",
     512, .metric = "exam-option", ITEM_CUT_WORDS, .prefix = "\nAnswer:",
     .system = "Now you are given a very long document. Please follow the instruction based on this "
     "document. For multi-choice questions, there is only a sinlge correct option. Please "
     "only provide the letter corresponding to the answer (like A or B) when answering. "
     "For other questions, please directly give the concise and accurate answer. "},
    {"leval", "gsm",
     "{context}\n\n{instruction}",
     512, .metric = "exam-math", ITEM_CUT_WORDS, .prefix = NULL,
     .system = "Given several question answer pairs, you need to follow a similar format to answer "
     "the last question. Make sure the response is end with The answer is _ . "},
    {"leval", "codeU",
     "{context}\n\n{instruction}",
     512, .metric = "exam-code", ITEM_CUT_FIRST_WORDS, .prefix = NULL,
     .system = "Now you are given a code base consisting of a large amount of functions and the "
     "corresponding comments. In the end, I will call some functions defined in the code "
     "base. Please carefully read these codes and comments and answer the question."},
    {"leval", "topic",
     "{context}\n\n{instruction}",
     512, .metric = "exam", ITEM_CUT_WORDS, .prefix = NULL,
     .system = "Below is a record of our previous conversation on many different topics. You are "
     "the ASSISTANT, and I am the USER. At the beginning of each topic, the USER will say "
     "'I would like to discuss the topic of <TOPIC>'. Memorize each <TOPIC>. At the end "
     "of the record, I will ask you to retrieve the first/second/third topic names. Now "
     "the record start. "},
    {"leval", "sci_fi",
     "Document is as follows. {context} \nQuestion: {instruction}.  Please directly give "
     "the answer without any additional output or explanation ",
     512, .metric = "exam-loyalty", ITEM_CUT_WORDS, .prefix = "\nAnswer:",
     .system = "Now you are given a scientific fiction. I will ask you some questions and the "
     "answer should be \"True\" or \"False\". Notice that you should answer the question "
     "based on the evidence in the document instead of your background knowledge."},
    {"leval", "exam",
     "Document is as follows. {context} \nQuestion: {instruction}.  Please directly give "
     "the answer without any additional output or explanation ",
     512, .metric = "exam", ITEM_CUT_WORDS, .prefix = "\nAnswer:",
     .system = "Now you are given a very long document. Please follow the instruction based on this "
     "document. For multi-choice questions, there is only a sinlge correct option. Please "
     "only provide the letter corresponding to the answer (like A or B) when answering. "
     "For other questions, please directly give the concise and accurate answer. "},
    {"leval", "f1",
     "Document is as follows. {context} Instruction: {instruction} \nAnswer this question "
     "with {words} words.",
     512, .metric = "f1", ITEM_CUT_WORDS, .prefix = NULL,
     .system = "Now you are given a very long document. Please follow the instruction after this "
     "document. These instructions may include summarizing a document, answering "
     "questions based on the document, or writing a required paragraph. "},
    {"leval", "rouge",
     "Document is as follows. {context} Instruction: {instruction} \nAnswer this question "
     "with {words} words.",
     512, .metric = "rouge-123l", ITEM_CUT_WORDS, .prefix = NULL,
     .system = "Now you are given a very long document. Please follow the instruction after this "
     "document. These instructions may include summarizing a document, answering "
     "questions based on the document, or writing a required paragraph. "},
    {"ruler", "niah", "{context}{last_line}", 128, .metric = "contains-all"},
    {"ruler", "vt", "{context}{last_line}", 30, .metric = "contains-all"},
    {"ruler", "cwe", "{context}{last_line}", 120, .metric = "contains-all"},
    {"ruler", "fwe", "{context}{last_line}", 50, .metric = "contains-all"},
    {"ruler", "qa", "{context}{last_line}", 32, .metric = "contains"},
    {"longmemeval", "",
     "I will give you several history chats between you and a user. Please answer the "
     "question based on the relevant chat history.\n\n\nHistory Chats:\n\n{context}\n\n"
     "Current Date: {question_date}\nQuestion: {question}\nAnswer:",
     500, .metric = "contains-words", ITEM_CUT_END},
    {"locomo", "",
     "Below is a conversation between two people: {speaker_a} and {speaker_b}. The "
     "conversation takes place over multiple days and the date of each conversation is "
     "wriiten at the beginning of the conversation.\n\n{context}\n\n\nBased on the above "
     "context, {task}\n\nQuestion: {question} Short answer:\n",
     32, .metric = "f1-stems", ITEM_CUT_START},
    {"niah", "",
     "{context}\n\n{retrieval_question} Don't give information outside the document or "
     "repeat your findings",
     300, .metric = "rouge-1",
     .system = "You are a helpful AI bot that answers questions for a user. Keep your response "
     "short and direct"},
    {"plain", "", "{context}\n\n{question}", 64, .metric = "contains"},
};
/* clang-format on */

const struct benchmark_task *benchmark_task_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}
