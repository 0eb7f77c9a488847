"""Closed classes of words to deny, doubt, report or take back an answer."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS = _words(
    "not no never neither nor cannot cant without nobody none nothing hardly scarcely ain't"
    " nicht kein keine keinesfalls nie niemals pas jamais nunca não nao non mai niet geen нет не"
    " ikke inte değil"
)
#: Words for a wrong answer, and for rejecting it.
REJECTIONS = _words(
    "wrong incorrect false untrue invalid mistaken mistake mistakenly error erroneous"
    " inaccurate incorrectly wrongly falsely reject rejected rejects ruled excluded eliminate"
    " eliminated discard discarded dismissed dismiss refuted disproved disproven debunked"
    " retracted withdrawn trap bait decoy distractor lure pitfall bogus fake absurd impossible"
    " contradiction contradictory contradicts contradicted violates violated nonsense"
    " nonsensical misleading misled nowhere tempting naive naively careless hasty premature"
    " unlikely doubtful doubt dubious implausible unreasonable unsure uncertain disagree"
    " disagrees fails failed fail extraneous inadmissible spurious unacceptable joke superseded"
    " replaced obsolete outdated crossed struck flawed faulty unsound untenable unfounded"
    " questionable suspicious suspect inconsistent incompatible ridiculous garbage rubbish bunk"
    " herring typo misprint miscalculation miscount overcount undercount overcounts undercounts"
    " overestimate underestimate misconception placeholder inadequate insufficient unsupported"
    " unverified unproven disqualified ineligible nope bad awry hopeless irrelevant illusion"
    " fallacy fallacious hallucination hallucinated abandoned scrapped scratched overruled"
    " revoked rescinded recanted cancelled canceled void falsch unmöglich faux fausse falso"
    " falsa incorrecto incorrecta incorreto incorreta errado errada erróneo imposible impossível"
    " sbagliato sbagliata errato impossibile errata fout onjuist неверно неправильно неверный"
    " ошибка yanlış błąd błędna fel galt feil forkert"
)
#: These reject an answer as the first word of its predicate: 7 is off by one, 7 is too large.
BARE_REJECTIONS = _words("out off too short shy close near almost nearly half worst")
#: Doubt about an answer, anywhere in the clause.
HEDGES = _words(
    "maybe perhaps naively possibly probably presumably supposedly allegedly hopefully"
    " conceivably arguably tentatively idk dunno vielleicht möglicherweise wahrscheinlich"
    " vermutlich peut- être probablement quizás quizá acaso probablemente talvez provavelmente"
    " forse probabilmente misschien waarschijnlijk возможно наверное вероятно belki kanske måske"
)
#: Doubt about the words just after or just before them.
GUESSES = _words("guess guesses guessing guessed likely tentative provisional")
MODALS = _words("might may could")
#: Others say it, or the text only supposes it.
REPORTS = _words(
    "says said say claims claimed thinks think believes believe believed argues argue argued"
    " suggests suggest suggested asserts assert asserted alleges alleged reportedly according"
    " pretends pretend rumored thought"
)
SUPPOSED = _words("suppose supposing assume assuming assumed whether unless imagine if")
#: The writer's own opinion is not a report.
WRITERS = _words("i we i'd we'd i'll we'll therefore thus")

#: These withdraw an answer at the beginning of a sentence.
RETRACTIONS = _words(
    "wait no nope nah actually hmm hm uh um oops whoops sorry correction erratum apologies"
    " nevermind scratch strike korrektur nein corrección perdón pardon attendez aspetta espera"
    " нет стоп"
)
#: These withdraw it before a colon.
NOTES_OF_CHANGE = _words("edit update errata rectification")
RETRACTING_PHRASES = (
    *(" on second thought", " on reflection ", " changed my mind ", " change my mind "),
    *(" not sure ", " not certain ", " not confident ", " not entirely sure ", " not so fast "),
    *(" just kidding ", " only kidding ", " scratch that ", " never mind ", " i misread "),
    *(" my mistake ", " my bad ", " i made a mistake ", " i made an error ", " i was wrong "),
    *(" i am wrong ", " i'm wrong ", " let me reconsider ", " let me redo ", " let me rethink "),
    *(" let me try again ", " let me start over ", " take that back ", " take it back "),
    *(" i miscalculated ", " i miscounted ", " i forgot ", " i meant ", " i mean "),
    *(" wait no ", " oh wait ", " but wait ", " no wait ", " i retract ", " or something "),
    *(" i doubt ", " i think not ", " i guess ", " just a guess ", " only a guess "),
    *(" wild guess ", " my guess ", " my best guess ", " random guess ", " educated guess "),
    *(" i'd rather say ", " i would rather say ", " should have been ", " ought to have been "),
    *(" no idea ", " i don't know ", " i do not know ", " don't trust ", " do not trust "),
    *(" ignore that ", " ignore this ", " ignore the above ", " ignore my ", " disregard "),
    *(" forget that ", " forget it ", " strike that ", " hold on ", " i was guessing "),
    *(" i am guessing ", " i'm guessing ", " i am unsure ", " i'm unsure ", " i am uncertain "),
    *(" i could be wrong ", " i may be wrong ", " i might be wrong ", " made a mistake above "),
    *(" i take back ", " let me correct ", " let me fix ", " needs to be corrected "),
    *(" who knows ", " unless i ", " i'm not mistaken ", " i am not mistaken ", " don't quote me "),
    *(" could be wrong ", " might be wrong ", " may be wrong ", " something is wrong "),
    *(" made a mistake ", " an error somewhere ", " assuming i "),
    *(" that's not ", " this is not right ", " could also be ", " might also be "),
    *(" no valid answer ", " no valid solution "),
)
#: A text without any of these words has none of the retracting phrases.
PHRASE_WORDS = _words(
    "knows unless mistaken quote something assuming checking second reflection mind sure"
    " certain confident fast kidding scratch never misread mistake bad error wrong reconsider"
    " redo rethink again over back miscalculated miscounted forgot meant mean wait retract doubt"
    " not guess rather have idea know trust ignore disregard forget strike hold guessing unsure"
    " uncertain correct fix corrected that's also valid"
)
#: Before an answer these deny it, or make it a mere bound: anything but 7.
LEADING_PHRASES = frozenset(
    (
        *("anything but", "all but", "far from", "other than", "rather than", "instead of"),
        *("different from", "apart from", "close to", "used to", "no longer", "no way"),
        *("so far", "partial result", "partial answer", "intermediate result"),
    )
)
#: After an answer these make it inexact or uncertain.
TRAILING_PHRASES = (
    *(" or so ", " or thereabouts ", " give or take ", " more or less ", " or near "),
    *(" as a guess ", " at a guess ", " had to guess ", " to be verified ", " to be checked "),
    *(" to be confirmed ", " correction needed ", " needs correction ", " i don't think so "),
    *(" i do not think so ", " at first glance ", " at first sight "),
    *(" needs checking ", " needs double-checking ", " to double-check "),
)
TRAILING_WORDS = _words(
    "glance sight checking double-checking double-check so thereabouts take less near guess"
    " verified checked confirmed correction or"
)
#: Pairs of words to deny an answer: far from right, makes no sense.
REJECTING_PAIRS = frozenset(
    (
        "far from",
        "anything but",
        "no sense",
        "no good",
        "no use",
        "no way",
        "is out",
        "are out",
        "a miss",
    )
)
#: People with an opinion other than the text's own.
OTHERS = _words("people students some many others most they one you everyone folks")
#: Just before an answer these make it inexact.
INEXACT = _words("about approximately approx roughly around circa nearly almost sim simeq")
#: An opinion of the past does not count as an answer.
PAST_OPINIONS = _words("thought believed assumed guessed supposed hoped")
#: "There is no doubt that" is a strong yes.
CERTAINTY = (
    " no doubt ",
    " without doubt ",
    " without a doubt ",
    " not wrong ",
    " cannot be wrong ",
)
#: A clause beginning with one of these continues the subject of the text before it.
LINKS = _words(
    "but and or however so thus hence then therefore yet although though still oh well even"
    " again unfortunately sadly also clearly obviously ah"
)
#: These begin a clause, as punctuation does.
CLAUSE_WORDS = _words(
    "so thus hence therefore then and but while whereas because since although though yet"
    " however as when where or which"
)
#: After these comes a reason for an answer, or the way it was found.
REASONS = _words(
    "because since as for due given where using by from when after with considering recall note"
    " through thanks owing see while whereas if"
)
#: Pronouns for the answer before them, then nouns for it after an article.
POINTERS = _words("this that it which that's it's he she they")
ANSWER_NOUNS = _words(
    "answer above result solution box value choice option guess claim conclusion response"
    " number reply"
)
DETERMINERS = _words("the my our this that a an your such any its")
COPULAS = _words(
    "is are was were be been being equals equal isn't aren't wasn't weren't it's that's 's"
    " seems seem looks look appears appear sounds feels turned turns proved proves remains"
    " became becomes gets got"
)
AUXILIARIES = COPULAS | _words(
    "can could may might must shall should will would has have had do does did cannot ought out"
    " to also then in fact really quite just simply clearly obviously definitely certainly"
    " actually still already now later indeed always so very rather completely totally entirely"
    " plainly apparently evidently of course therefore thus hence even probably possibly perhaps"
    " however the a an my our your his her their what itself yet only ever both all surely"
)
#: Words permitted between a denial and the denied answer.
FILLERS = (
    AUXILIARIES
    | ANSWER_NOUNS
    | _words(
        "that this it there given correct right expected final true case exactly necessarily"
        " precisely option letter equal option choice something like i we way best one"
        " choose chose pick select go with say saying think believe claim claiming answer"
        " answering be being considered"
    )
)
OPINIONS = _words(
    "that think believe say saying claim claiming true case sure certain mean convinced agree"
    " answering doubt to"
)
#: After a negation these judge an answer: not right, not my answer.
JUDGED = _words(
    "right correct true valid possible it answer sure certain final so good fit work works hold"
    " holds accurate best solution acceptable accepted make makes satisfy trust add follow"
    " result option choice what either meet match agree reliable allowed feasible plausible"
    " credible reasonable ok okay fine one be fitting stand suffice enough apply applicable"
    " desired wanted intended required real actual viable check out"
)
#: A denial of these says nothing against an answer: it cannot be simplified further.
HARMLESS = _words(
    "simplified simplify reduced reduce factored factor further expressed negative zero prime"
    " divisible only just merely need any anything other otherwise else change depend matter"
    " surprising hard difficult necessary exceed affected unique written"
)
#: Words for an earlier answer, now replaced: it was my first guess.
PAST = _words("was were had wasn't used been")
OLD = _words(
    "previous former first initial initially old earlier original originally naive guess"
    " thought before attempt had wrote said instinct impression intuition assumption hunch draft"
    " worst"
)
#: Nouns for an earlier answer, after "my" or "the first".
FIRST_NOUNS = _words("answer option guess thought attempt choice idea instinct")
#: These doubt or deny an answer as a name for it: my guess is 7, the trap is 7.
DENYING_NAMES = _words("guess trap bait decoy distractor misconception")
#: Verbs at the beginning of a predicate, then verbs of denial.
VERBS = (
    COPULAS
    | MODALS
    | _words(
        "can would will should must has have had does did do cannot used"
        " leads lead results causes produces creates makes make"
    )
)
DENYING_VERBS = _words(
    "fails contradicts violates rejected eliminated excluded discarded dismissed ruled refuted"
    " disproved"
)
#: A clause or sentence beginning with one of these replaces the answer before it.
REPLACING = _words(
    "so now but rather instead actually no or hence thus therefore then should the my it it's"
    " i'd i ultimately alternatively we is otherwise else"
)
#: These, alone in a clause, take an answer back or make it inexact. BESIDE_REMARKS may join them.
LONE_REMARKS = _words(
    "no nope nah wait hmm approximately approx roughly ish about circa oops sorry"
)
BESIDE_REMARKS = _words(
    "though by me again either way because on part now then already anyway i not"
)
#: "No, it is 8" takes an answer back, but "no other value fits" does not.
AFTER_NO = POINTERS | _words("wait the my i sorry way")
#: With these a clause is about things, not about the answer: 7 were rejected.
PLURAL_VERBS = _words("are were aren't weren't have haven't do don't")
#: After these comes a remark about a noun, not about the answer.
RELATIVES = _words("who that which whose of not in with without")
#: Crosses and similar signs, then denials in scripts without spaces.
DENYING_SIGNS = "❌✗✘✖❎🚫👎🤔❓"
DENYING_TEXTS = (
    *("不是", "不对", "不對", "不正确", "不正確", "不可能", "错", "錯", "误", "誤", "并非", "並非"),
    *("也许", "也許", "可能是", "大概", "猜", "等等", "不确定", "違", "間違", "かもしれ", "たぶん"),
    *("ではない", "じゃない", "ではありません", "多分"),
    *("아니", "틀", "아마", "غير", "خطأ", "ليس", "गलत", "नहीं"),
)

#: A number next to one of these is only near the value.
APPROXIMATIONS = _words(
    "about approximately approx roughly around circa nearly almost some estimated ish odd"
    " approaching ungefähr etwa environ aproximadamente приблизительно около"
)
#: Words before a number, changing it to another number.
CHANGES = APPROXIMATIONS | _words(
    "minus plus negative positive point than least most below above over under exceeds"
    " exceeding step page question equation figure table chapter section problem exercise never"
    " twice thrice double triple quadruple half barely within beyond near times modulo mod"
    " choose squared cubed not neither nor inverse reciprocal factorial log ln sine cosine sin"
    " cos tan sqrt root cube square opposite negation complement line item version kilo mega"
    " giga tera milli micro nano centi deci upto theorem lemma corollary proposition definition"
    " appendix example article paragraph base degree case минус moins menos meno mehr als больше"
    " меньше более менее примерно около ungefähr etwa höchstens mindestens environ"
)
#: Words that keep a number the same before "of": a total of 7.
WHOLES = _words(
    "total answer value result solution average mean sum maximum minimum length distance radius"
    " area volume cost price amount number count score weight height speed rate profit loss"
    " median mode width probability remainder balance difference age sale salary time perimeter"
    " product"
)
#: These change the value of a box, alone or with "of".
OPERATIONS = _words(
    "minus negative twice thrice double triple quadruple half third quarter fifth tenth inverse"
    " reciprocal factorial logarithm root cube square opposite negation complement multiple"
    " successor predecessor near except"
)
#: Words after a number, changing it to another number.
NUMERALS = _words(
    "half halves third thirds quarter quarters fourths fifths tens dozen dozens score scores"
    " gross grosses hundred hundreds thousand thousands myriad myriads lakh lakhs lac lacs crore"
    " crores million millions billion billions trillion trillions quadrillion quintillion mn bn"
    " tn googol brace percent pct percents permille permil mille ppm ppb bps bp kilo mega giga"
    " tera peta milli micro nano pico deca hecto deci centi squared cubed factorial factorials"
    " fold tenth hundredth thousandth millionth inverted negated thou grand mod modulo choose"
    " mln mrd mlrd milliard milliards millionen milliarden millones tausend dutzend milliers"
    " тысяча тысячи тысяч миллион миллиона миллионов миллиард миллиарда миллиардов"
)
#: Pairs of words with the same effect.
NUMERAL_PAIRS = frozenset(("per cent", "per mille", "per thousand", "basis points", "half dozen"))
#: After a bare number these also make it part of a larger value.
JOINTS = (
    NUMERALS
    | APPROXIMATIONS
    | _words(
        "times over point below under or to plus minus twice divided multiplied roots powers power"
        " root less more fewer per pairs couple couples"
    )
)
#: These name counted things before "of" and a noun, or after a boxed number: 18 quarters.
COUNTED = _words("dozens scores half third score gross")
#: After a box these change its value.
BOXED_JOINTS = _words("minus plus point")
BOXED_PAIRS = frozenset(
    (
        *("and half", "below zero", "degrees below", "short of", "too many", "too few"),
        *("too much", "away from", "a half", "a third", "a quarter", "or more", "or less"),
        *("or fewer", "at most", "at least", "at minimum", "at maximum", "and above", "and up"),
        *("and below", "or above", "or below"),
    )
)
#: After a box these name counted things, or introduce the modulus of a remainder.
BOXED_NOUNS = _words("quarters quarter mod modulo choose")
#: Words permitted between a claim or a link and the claimed value.
CLAIMING = _words(
    "the answer result solution final correct right real true actual value is it it's i i'd we"
    " rather say would should must be so thus hence therefore then but or make that my our"
    " actually really to get am i'm going go with choose pick new it'll now edit correction"
    " update no wait sorry in fact maybe perhaps think mean meant let's corrected better more"
    " precisely instead ought have been option choice otherwise else"
)
#: Measures without a conversion to the units of a reference.
MEASURES = _words(
    "nautical stone stones pence penny mach o'clock fathom fathoms chain chains light parsec ares"
    " hundredweight troy slug slugs barn barns gauss bits bytes baud midnight noon"
)
#: Short words after a number, other than units.
SHORT_WORDS = _words(
    "in on at to of by as is so or and for per are was the a an if we it all too now but not far"
    " off ago old out up he she her his its who has had can may men new two six ten one red boy"
    " big day end yet nor i you my our us me do did be than"
)
