"""Stop words: articles, pronouns, prepositions, conjunctions and auxiliary verbs of a few languages.

The lists are short on purpose. Long published lists drop words people ask for ("fire", "free", "computer"); a word of
a closed class says nothing about a subject.
"""

_LISTS = {
    "en": """
        a an the and or but if nor so yet as than that this these those there here then i me my mine myself we us our
        ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself they
        them their theirs themselves who whom whose which what when where why how am is are was were be been being
        have has had having do does did doing will would shall should can could may might must ought cannot of at by
        for with about against between into through during before after above below to from up down in out on off over
        under onto upon within without until while because since again further once both each few more most other some
        such no not only own same too very just also i'm you're he's she's it's we're they're i've you've we've
        they've i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll it'll we'll they'll isn't aren't wasn't
        weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't shan't shouldn't can't couldn't mustn't
        mightn't let's that's who's what's here's there's
    """,
    "de": """
        der die das den dem des ein eine einer eines einem einen kein keine keiner keines keinem keinen und oder aber
        sondern denn weil dass daß wenn als wie ob obwohl damit während bis sowie ich mich mir du dich dir er ihn ihm
        sie ihr es wir uns euch ihnen man sich mein meine meiner meines meinem meinen dein deine deiner deines deinem
        deinen sein seine seiner seines seinem seinen ihre ihrer ihres ihrem ihren unser unsere unserer unseres
        unserem unseren euer eure eurer eures eurem euren dies diese dieser dieses diesem diesen jene jener jenes
        jenem jenen jede jeder jedes jedem jeden welche welcher welches welchem welchen wer wen wem was wo wohin woher
        wann warum bin bist ist sind seid war warst waren wart gewesen sei wäre wären habe hast hat haben habt hatte
        hatten hattest hätte hätten werde wirst wird werden werdet wurde wurden würde würden geworden worden kann
        kannst können könnt konnte konnten könnte muss musst müssen müsst musste mussten soll sollst sollen sollte
        sollten will willst wollen wollte wollten darf dürfen durfte mag mögen an am auf aus bei beim durch für gegen
        hinter in im ins mit nach neben ohne seit über um unter von vom vor zu zum zur zwischen nicht auch nur noch
        schon sehr so dann da dort hier hin doch ja nein nun
    """,
    "fr": """
        le la les l un une des du de d au aux ce cet cette ces mon ma mes ton ta tes son sa ses notre nos votre vos
        leur leurs et ou où mais donc or ni car que qu quand comme si lorsque puisque parce je j me m moi tu te t toi
        il elle on nous vous ils elles se s soi lui eux y en qui quoi dont lequel laquelle lesquels lesquelles ceci
        cela ça celui celle ceux celles quel quelle quels quelles suis es est sommes êtes sont étais était étions
        étiez étaient serai sera serons serez seront serait seraient sois soit soient été être étant ai as a avons
        avez ont avais avait avions aviez avaient aurai aura aurons aurez auront aurait auraient aie ait aient eu
        avoir ayant fus fut furent à dans par pour sur avec sans sous vers chez entre depuis pendant avant après
        contre ne n pas plus aussi même très c'est j'ai d'un d'une qu'il qu'elle qu'ils qu'on n'est l'on s'est
    """,
    "es": """
        el la los las lo un una unos unas al del y e o u pero sino ni que si como porque cuando donde aunque mientras
        pues yo me mí tú te ti él ella ello nos nosotros nosotras vosotros vosotras os ellos ellas se sí le les usted
        ustedes mi mis tu tus su sus mío mía míos mías tuyo tuya tuyos tuyas suyo suya suyos suyas nuestro nuestra
        nuestros nuestras vuestro vuestra vuestros vuestras este esta estos estas esto ese esa esos esas eso aquel
        aquella aquellos aquellas aquello quien quienes qué quién cuál cuáles cuándo dónde cómo cual cuyo soy eres es
        somos sois son era eras éramos eran fui fue fuimos fueron sea sean sería ser siendo sido estoy estás está
        estamos están estaba estaban estuvo estar estado he has ha hemos han había habían haya hay haber habido tengo
        tienes tiene tenemos tienen tenía a ante bajo con contra de desde durante en entre hacia hasta para por según
        sin sobre tras no ya también muy más
    """,
    "it": """
        il lo la i gli le l un uno una del dello della dei degli delle dell al allo alla ai agli alle all dal dallo
        dalla dai dagli dalle dall nel nello nella nei negli nelle nell sul sullo sulla sui sugli sulle sull col coi e
        ed o od ma se che come perché quando dove mentre né anche io tu lui lei noi voi loro mi ti ci vi si me te sé
        ne li egli ella essi esse mio mia miei mie tuo tua tuoi tue suo sua suoi sue nostro nostra nostri nostre
        vostro vostra vostri vostre questo questa questi queste quello quella quelli quelle quel quei quegli chi cui
        quale quali cosa sono sei è siamo siete era eri eravamo erano sarà saranno sarebbe sia siano fu furono essere
        essendo stato stata stati state ho hai ha abbiamo avete hanno avevo aveva avevano avrà avranno avrebbe abbia
        abbiano avere avendo avuto di a da in con su per tra fra non più già molto c'è
    """,
    "pt": """
        o a os as um uma uns umas ao aos à às do da dos das no na nos nas num numa pelo pela pelos pelas dum duma e ou
        mas nem que se como porque quando onde embora enquanto pois eu me mim tu te ti ele ela nós vós eles elas lhe
        lhes você vocês se si meu minha meus minhas teu tua teus tuas seu sua seus suas nosso nossa nossos nossas
        vosso vossa vossos vossas dele dela deles delas este esta estes estas isto esse essa esses essas isso aquele
        aquela aqueles aquelas aquilo quem qual quais cujo sou és é somos são era eram fui foi fomos foram seja sejam
        seria será serão ser sendo sido estou está estamos estão estava estavam esteve estar tenho tem temos têm tinha
        tinham teve ter tido há havia haver de em por para com sem sob sobre até desde entre contra após ante não já
        também muito mais
    """,
    "nl": """
        de het een 't 'n der des den en of maar want dat als dan omdat hoewel terwijl toen dus noch ik mij me mijn jij
        je jou jouw u uw hij hem zijn zij ze haar wij we ons onze jullie hen hun zich men dit deze die wie wat welke
        welk waar wanneer waarom hoe er hier daar ben bent is was waren geweest wezen heb hebt heeft hebben had hadden
        gehad word wordt worden werd werden geworden zal zult zullen zou zouden kan kun kunt kunnen kon konden mag
        mogen mocht moet moeten moest wil wilt willen wilde wilden aan bij door in met na naar om onder op over te
        tegen ten ter tot tussen uit van voor zonder niet geen ook nog al zo wel
    """,
}


def stop_words_of(language: str) -> tuple[str, ...]:
    """Return the stop words of a language by two-letter code, as written; KeyError if we have no list for it."""
    return tuple(_LISTS[language].split())


LANGUAGES = tuple(sorted(_LISTS))
