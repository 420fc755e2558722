#include "report/words.h"

#include "page/page.h"
#include "support/markup.h"

namespace strata {

std::string counted(int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", page::grouped(number), what, number == 1 ? "" : "s");
}

std::string to_text(const Explanation& explanation) {
  std::string text = fmt::format("{}\n{}\n", explanation.title, explanation.headline);
  for (const Paragraph& paragraph : explanation.paragraphs) {
    text += "\n" + paragraph.title + "\n";
    for (const std::string& sentence : paragraph.sentences) text += "  " + sentence + "\n";
  }
  return text;
}

Json to_json(const Explanation& explanation) {
  Json json{{"kind", explanation.kind}, {"title", explanation.title}, {"headline", explanation.headline}};
  json["paragraphs"] = Json::array();
  for (const Paragraph& paragraph : explanation.paragraphs)
    json["paragraphs"].push_back({{"title", paragraph.title}, {"sentences", paragraph.sentences}});
  return json;
}

std::string to_html(const Explanation& explanation) {
  std::string markup = "<div class=\"words\">\n";
  for (const Paragraph& paragraph : explanation.paragraphs) {
    markup += fmt::format("<div><h3>{}</h3>\n", escape_markup(paragraph.title));
    for (const std::string& sentence : paragraph.sentences) markup += page::paragraph(sentence);
    markup += "</div>\n";
  }
  return markup + "</div>\n";
}

}  // namespace strata
